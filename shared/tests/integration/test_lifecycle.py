"""Start, health and stop of a service, as a real process with real signals."""

import asyncio
import json
import os
import signal
import socket
import sys

import httpx
import pytest

from tablebell.testing import eventually, free_port

SERVICE = """
import asyncio, sys
from functools import partial
from tablebell.health import Health
from tablebell.lifecycle import run
from tablebell.logs import configure_logs
from tablebell.web import health_app, serve

async def work(port, busy, stop):
    async with asyncio.TaskGroup() as tasks:
        health = Health(stop)
        tasks.create_task(serve(health_app("test", health), "127.0.0.1", port, stop))
        if busy == "crash":
            await asyncio.sleep(0.2)
            raise RuntimeError("a side task died")
        await stop.wait()
        await asyncio.sleep(float(busy))

configure_logs("test")
sys.exit(run(partial(work, int(sys.argv[1]), sys.argv[2]), drain_seconds=0.5))
"""


@pytest.fixture
def port() -> int:
    return free_port()


async def start(port: int, busy: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVICE, str(port), busy, stdout=asyncio.subprocess.PIPE, env=os.environ
    )


async def ready(port: int) -> bool:
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200
        except httpx.TransportError:
            return False


async def finish(process: asyncio.subprocess.Process) -> tuple[int | None, list[dict[str, object]]]:
    output, _ = await asyncio.wait_for(process.communicate(), 10)
    return process.returncode, [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_exits_0(port: int, number: signal.Signals) -> None:
    process = await start(port, busy="0.1")
    await eventually(lambda: ready(port))
    process.send_signal(number)
    code, lines = await finish(process)
    assert code == 0
    assert lines[-1]["event"] == "service_stopped"
    assert lines[-1]["drained"] is True


async def test_work_that_does_not_drain_in_time_is_abandoned(port: int) -> None:
    process = await start(port, busy="60")
    await eventually(lambda: ready(port))
    process.send_signal(signal.SIGTERM)
    code, lines = await finish(process)
    assert code == 0
    assert lines[-1]["drained"] is False


async def test_a_failed_task_ends_the_service_with_an_error(port: int) -> None:
    process = await start(port, busy="crash")
    code, lines = await finish(process)
    assert code == 1
    assert lines[-1]["event"] == "service_died"
    assert "a side task died" in json.dumps(lines[-1])


async def test_a_port_in_use_is_named(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        code, lines = await finish(await start(port, busy="0"))
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in json.dumps(lines[-1])
