"""The unchanged @stomp/stompjs in Node and in Chromium, from CONNECT to the receipt of DISCONNECT."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.staticfiles import StaticFiles

from tablebell.lifecycle import Stop
from tablebell.testing import free_port
from tablebell.testing.chromium import Chromium
from tablebell.testing.frames import notification
from tablebell.testing.tokens import token
from tablebell.web import serve

from .harness import RunningGateway, StartGateway

BROWSER = Path(__file__).parent.parent / "browser"

pytestmark = pytest.mark.timeout(120)  # the first run may install the package and the browser


@pytest.fixture(scope="session")
def stompjs() -> Path:
    """The package that npm installs from the lock file."""
    installed = BROWSER / "node_modules" / "@stomp" / "stompjs"
    if not installed.exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=BROWSER, check=True, timeout=100)
    return installed


@pytest.fixture
async def gateway(start_gateway: StartGateway) -> RunningGateway:
    return await start_gateway(stomp_heart_beat_seconds=0.3, ws_allowed_origins="*")


def check(reported: list[dict[str, Any]], text: str) -> None:
    """Check the events that a client reported."""
    events = [each["event"] for each in reported]
    assert "error" not in events
    (connected,) = [each for each in reported if each["event"] == "connected"]
    assert (connected["version"], connected["subprotocol"]) == ("1.2", "v12.stomp")
    (message,) = [each for each in reported if each["event"] == "message"]
    assert message["body"] == text
    assert message["headers"]["destination"] == "/user/queue/notifications"
    assert message["headers"]["message-id"]
    assert message["headers"]["subscription"] == "sub-0"
    beats = {each["text"] for each in reported if each["event"] == "heart-beat"}
    assert beats == {"<<< PONG", ">>> PING"}
    # The client reports `disconnected` after the receipt of its DISCONNECT.
    assert events[-2:] == ["disconnected", "closed"]
    assert reported[-1]["code"] in (1000, 1005)


async def test_stompjs_in_node(gateway: RunningGateway, stompjs: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        "node", "stomp_client.mjs", gateway.stomp_url, token(), cwd=BROWSER, stdout=asyncio.subprocess.PIPE
    )
    frame = notification(7, "RESTAURANT_USER:50", body='Zoë "€" 🍕')
    reported = []
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            async for line in process.stdout:
                reported.append(json.loads(line))
                if reported[-1]["event"] == "subscribed":
                    await gateway.publish(frame, notification(8, "RESTAURANT_USER:51"))
            assert await process.wait() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    check(reported, frame.text.decode())


async def test_stompjs_in_chromium(gateway: RunningGateway, stompjs: Path, chromium: Chromium) -> None:
    frame = notification(7, "RESTAURANT_USER:50", body='Zoë "€" 🍕')
    async with serving(stompjs / "bundles", BROWSER) as site:
        query = urlencode({"url": gateway.stomp_url, "token": token()})
        tab = await chromium.open(f"{site}/stomp.html?{query}")
        await tab.wait_for("reported.some(each => each.event === 'subscribed')")
        await gateway.publish(frame, notification(8, "RESTAURANT_USER:51"))
        await tab.wait_for("reported.some(each => each.event === 'closed')")
        reported = await tab.evaluate("reported")
    check(reported, frame.text.decode())


@asynccontextmanager
async def serving(*folders: Path) -> AsyncIterator[str]:
    """Serve the files of some folders over HTTP: a page needs an origin."""
    site = StaticFiles(directory=folders[0])
    site.all_directories = list(folders)
    stop, port = Stop(), free_port()
    task = asyncio.create_task(serve(site, "127.0.0.1", port, stop))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop.request()
        await task
