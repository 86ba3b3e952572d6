"""Runs relays as separate processes, as in production."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from tablebell.postgres import Pool
from tablebell.testing import Database, eventually
from tablebell.web import bind

OWNERS = """
SELECT pid, count(*)
  FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
 WHERE datname = current_database() AND locktype = 'advisory' AND classid = 42 AND objid < 16
 GROUP BY pid
"""


@asynccontextmanager
async def relays(count: int, database: Database, amqp_url: SecretStr, pool: Pool) -> AsyncIterator[list[int]]:
    """Yields their process ids after each relay has its partitions."""
    started = [await _start(database, amqp_url) for _ in range(count)]
    try:

        async def settled() -> bool:
            rows = await pool.fetch(OWNERS)
            return len(rows) == count and sum(row["count"] for row in rows) == 16

        await eventually(settled, within=30, every=0.05)
        await asyncio.sleep(0.5)
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.terminate()
        await asyncio.gather(*(process.wait() for process in started))


async def _start(database: Database, amqp_url: SecretStr) -> asyncio.subprocess.Process:
    with bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
    environment = {
        **os.environ,
        "DATABASE_URL": database.url_of("event_relay").get_secret_value(),
        "AMQP_URL": amqp_url.get_secret_value(),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "LOG_LEVEL": "ERROR",
    }
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "event_relay", env=environment)
