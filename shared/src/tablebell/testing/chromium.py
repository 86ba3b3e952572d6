"""A driver for a real Chromium over the DevTools protocol: open tabs, evaluate JavaScript, take screenshots."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class PageError(AssertionError):
    """The page raised an exception or did not reach the expected state."""


class Tab:
    """A tab. Tabs with the same browser context share cookies and storage."""

    def __init__(self, socket: ClientConnection, context: str) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read(), name="tab")
        self.context = context
        self.page_errors: list[str] = []

    async def _read(self) -> None:
        async for message in self._socket:
            received = json.loads(message)
            if "id" in received:
                self._answers.pop(received["id"]).set_result(received)
            elif received["method"] == "Runtime.exceptionThrown":
                self.page_errors.append(json.dumps(received["params"]["exceptionDetails"]))

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        async with asyncio.timeout(15):
            answer = await self._answers[number]
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. A promise is awaited."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            raise PageError(answer["exceptionDetails"].get("exception", {}).get("description", expression))
        return answer["result"].get("value")

    async def wait_for(self, expression: str, within: float = 10.0) -> Any:
        """Evaluate the expression until it is truthy and return its value."""
        deadline = asyncio.get_running_loop().time() + within
        while not (value := await self.evaluate(expression)):
            if asyncio.get_running_loop().time() > deadline:
                page = await self.evaluate("document.body.innerText")
                raise PageError(f"not true within {within} s: {expression}; the page shows: {page[:500]!r}")
            await asyncio.sleep(0.02)
        return value

    async def go(self, url: str) -> None:
        await self.call("Page.navigate", url=url)
        await self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def set_offline(self, *, offline: bool) -> None:
        await self.call(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )

    async def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        scale = 2 if mobile else 1
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    async def use_dark(self) -> None:
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    async def screenshot(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])

    async def close(self) -> None:
        self._reading.cancel()
        await self._socket.close()


class Chromium:
    """A connection to a running browser. Closing it closes the tabs that it opened."""

    def __init__(self, port: int, control: Tab) -> None:
        self._port = port
        self._control = control
        self._tabs: list[Tab] = []

    async def open(self, url: str, *, beside: Tab | None = None) -> Tab:
        """Open a tab in a new browser context, or in the context of `beside`."""
        context = beside.context if beside else await self._new_context()
        made = await self._control.call("Target.createTarget", url="about:blank", browserContextId=context)
        page = f"ws://127.0.0.1:{self._port}/devtools/page/{made['targetId']}"
        tab = Tab(await connect(page, max_size=None, compression=None), context)
        self._tabs.append(tab)
        for domain in ("Page", "Runtime", "Network"):
            await tab.call(f"{domain}.enable")
        await tab.go(url)
        return tab

    async def _new_context(self) -> str:
        return str((await self._control.call("Target.createBrowserContext"))["browserContextId"])

    async def close(self) -> None:
        for context in {tab.context for tab in self._tabs}:
            await self._control.call("Target.disposeBrowserContext", browserContextId=context)
        for tab in (*self._tabs, self._control):
            await tab.close()


@asynccontextmanager
async def open_chromium(port: int) -> AsyncIterator[Chromium]:
    async with httpx.AsyncClient() as http:
        version = (await http.get(f"http://127.0.0.1:{port}/json/version")).json()
    socket = await connect(version["webSocketDebuggerUrl"], max_size=None, compression=None)
    browser = Chromium(port, Tab(socket, ""))
    try:
        yield browser
    finally:
        await browser.close()


@contextmanager
def chromium_process() -> Iterator[int]:
    """Run Chromium and yield its DevTools port. Installs Chromium if it is missing."""
    if shutil.which("chromium") is None:
        _install()
    with TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = ["chromium", *FLAGS, f"--user-data-dir={home}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield _port_in(Path(home) / "DevToolsActivePort")
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _install() -> None:
    subprocess.run(["apt-get", "update", "-q"], check=True, timeout=120, stdout=subprocess.DEVNULL)
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"]
    subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)


def _port_in(file: Path) -> int:
    """Wait for the port file, which Chromium writes when it is ready."""
    for _ in range(600):
        with contextlib.suppress(FileNotFoundError, IndexError):
            return int(file.read_text().splitlines()[0])
        time.sleep(0.05)
    raise RuntimeError("Chromium did not start")
