"""Runs relays: inside the test, or as processes that can be killed."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import SecretStr

from event_relay.__main__ import serve_until
from event_relay.settings import Settings
from tablebell.lifecycle import Stop
from tablebell.testing import Database, free_port


def settings_for(database: Database, amqp_url: SecretStr, **changes: Any) -> Settings:
    url = database.url_of("event_relay")
    return Settings(**{"database_url": url, "amqp_url": amqp_url, "host": "127.0.0.1", "port": free_port(), **changes})


@asynccontextmanager
async def running_relay(database: Database, amqp_url: SecretStr, **changes: Any) -> AsyncIterator[Settings]:
    settings, stop = settings_for(database, amqp_url, **changes), Stop()
    running = asyncio.create_task(serve_until(settings, stop))
    try:
        yield settings
        assert not running.done(), "the relay ended by itself"
    finally:
        stop.request()
        await running


class RelayProcess:
    def __init__(self, database: Database, amqp_url: SecretStr, **environment: str) -> None:
        self._environment = {
            **os.environ,
            "DATABASE_URL": database.url_of("event_relay").get_secret_value(),
            "AMQP_URL": amqp_url.get_secret_value(),
            "HOST": "127.0.0.1",
            "LOG_LEVEL": "WARNING",
            **environment,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "event_relay", env={**self._environment, "PORT": str(free_port())}
        )

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """Ends it like a crash, without a shutdown."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        return await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await self._process.wait()


@asynccontextmanager
async def relay_processes(
    count: int, database: Database, amqp_url: SecretStr, **environment: str
) -> AsyncIterator[list[RelayProcess]]:
    relays = [RelayProcess(database, amqp_url, **environment) for _ in range(count)]
    try:
        await asyncio.gather(*(relay.start() for relay in relays))
        yield relays
    finally:
        await asyncio.gather(*(relay.kill() for relay in relays))
