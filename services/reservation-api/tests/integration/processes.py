"""Replicas of the service as separate processes that share only the database."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tablebell.testing import Database, free_port
from tablebell.testing.tokens import AUDIENCE, PRIVATE_KEY_FILE

from .conftest import answering


@dataclass(frozen=True)
class Replica:
    url: str
    process: asyncio.subprocess.Process


@asynccontextmanager
async def replicas(database: Database, count: int) -> AsyncIterator[list[Replica]]:
    started: list[Replica] = []
    try:
        for _ in range(count):
            started.append(await _start(database))  # noqa: PERF401 - `finally` must see each process, even if a later start fails
        await asyncio.gather(*(answering(replica.url) for replica in started))
        yield started
    finally:
        for replica in started:
            if replica.process.returncode is None:
                replica.process.kill()
            await replica.process.wait()


async def _start(database: Database) -> Replica:
    port = free_port()
    environment = {
        **os.environ,
        "DATABASE_URL": database.url_of("reservation_api").get_secret_value(),
        "JWT_PRIVATE_KEY_FILE": str(PRIVATE_KEY_FILE),
        "JWT_AUDIENCE": AUDIENCE,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "LOG_LEVEL": "ERROR",
        "RATE_LIMIT_BURST": "10000",
        "OPEN_REQUESTS_PER_CUSTOMER": "0",
        "REQUESTS_PER_HOUR": "0",
        "CHANGES_PER_HOUR": "0",
        "TABLE_GAP_MINUTES": "0",
        "UNDO_SECONDS": "0",
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "reservation_api", env=environment)
    return Replica(f"http://127.0.0.1:{port}", process)
