"""The gateway stops, is killed, or does not start."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tablebell.rabbit import Broker
from tablebell.testing import Servers, eventually, free_port
from tablebell.testing.frames import notification
from tablebell.testing.tokens import token

from .harness import StartGateway, close_code, gateway_process, receive


async def test_a_stopping_gateway_is_not_ready_refuses_handshakes_and_spreads_1012_over_the_drain_time(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(drain_seconds=4.0)
    clients = [await gateway.sign_in(f"RESTAURANT_USER:{number}") for number in range(50, 70)]
    closed: list[float] = []

    async def ends(index: int) -> None:
        assert await close_code(clients[index]) == 1012
        closed.append(time.monotonic() - stopped)

    stopped = time.monotonic()
    gateway.stop.request()
    ending = asyncio.gather(*(ends(index) for index in range(len(clients))))
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{gateway.http_url}/health/ready")
    assert (answer.status_code, answer.json()["because"]) == (503, {"service": "stopping"})
    with pytest.raises(InvalidStatus) as refused:
        await gateway.open()
    assert refused.value.response.status_code == 503
    still_open = [f"RESTAURANT_USER:{number}" for number in range(50, 70)]
    await gateway.publish(notification(1, *still_open))
    received = 0
    for client in clients:
        with contextlib.suppress(Exception):
            received += (await receive(client, within=1))["id"] == 1
    await ending
    assert received > 0  # clients that are not closed yet still receive frames
    assert closed[-1] - closed[0] > 1.5
    assert max(later - earlier for earlier, later in itertools.pairwise(closed)) < 1.5


async def test_sigterm_closes_with_1012_and_exits_with_0(amqp_url: SecretStr, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    async with gateway_process(amqp_url, port, log) as process, connect(f"ws://127.0.0.1:{port}/ws") as client:
        await client.send(json.dumps({"type": "auth", "token": token()}))
        assert (await receive(client))["type"] == "ready"
        process.send_signal(signal.SIGTERM)
        assert await close_code(client) == 1012
        assert await asyncio.wait_for(process.wait(), 10) == 0
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert [event for event in events if event.startswith("session_")] == ["session_opened", "session_closed"]


async def test_kill_9_leaves_no_queue_and_the_next_process_serves(
    amqp_url: SecretStr, broker: Broker, servers: Servers, tmp_path: Path
) -> None:
    port = free_port()
    async with gateway_process(amqp_url, port, tmp_path / "log") as process:
        process.kill()
        await process.wait()
    vhost = urlsplit(amqp_url.get_secret_value()).path[1:]

    async def no_queue() -> bool:
        async with httpx.AsyncClient(base_url=servers.management_url, timeout=10) as http:
            return bool((await http.get(f"/api/queues/{vhost}")).json() == [])

    await eventually(no_queue, every=0.2)
    async with gateway_process(amqp_url, port, tmp_path / "log"), connect(f"ws://127.0.0.1:{port}/ws") as client:
        await client.send(json.dumps({"type": "auth", "token": token()}))
        assert (await receive(client))["type"] == "ready"


def test_all_wrong_settings_are_named_at_startup() -> None:
    wrong = {"PATH": os.environ["PATH"], "PORT": "no", "MAX_CONNECTIONS": "0", "PUBLIC_API_URL": "nowhere"}
    ended = subprocess.run([sys.executable, "-m", "ws_gateway"], env=wrong, capture_output=True, text=True, check=False)
    assert ended.returncode == 78
    for name in ("PORT", "MAX_CONNECTIONS", "PUBLIC_API_URL", "AMQP_URL", "JWT_AUDIENCE"):
        assert name in ended.stderr
