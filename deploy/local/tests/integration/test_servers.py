"""PostgreSQL and RabbitMQ of an instance in a temporary directory: up, killed, up again, down."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from tablebell_local.instance import Instance
from tablebell_local.processes import find
from tablebell_local.stack import Stack

NAME = "test-servers"
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "tablebell_local", "--instance", NAME, "--state", str(tmp_path)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    yield run
    run("down")


def kill(stack: Stack) -> None:
    for pid in [*stack.postgres.pids(), *stack.rabbitmq.pids()]:
        os.kill(pid, signal.SIGKILL)


async def count_rows(stack: Stack) -> int:
    connection = await asyncpg.connect(stack.postgres.url())
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS guest (name text)")
        await connection.execute("INSERT INTO guest VALUES ('one more')")
        return int(await connection.fetchval("SELECT count(*) FROM guest"))
    finally:
        await connection.close()


@pytest.mark.timeout(240)
async def test_killed_servers_restart_with_their_data_and_down_stops_everything(run: Run, tmp_path: Path) -> None:
    run("servers")
    instance = Instance.named(NAME, tmp_path)
    stack = Stack(instance)
    ports = json.loads(instance.path("ports.json").read_text())
    assert [await process.problem() for process in stack.servers] == [None, None]
    assert await count_rows(stack) == 1

    assert "starting" not in run("servers")

    assert await count_rows(stack) == 2
    kill(stack)
    started = run("servers")
    assert "postgres" in started
    assert "rabbitmq" in started
    assert await count_rows(stack) == 3
    assert json.loads(instance.path("ports.json").read_text()) == ports

    run("down")
    assert find(instance.directory) == []
    assert stack.postgres.pids() == []
