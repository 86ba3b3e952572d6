"""Runs relays as separate processes, as in production."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pydantic import SecretStr

from bench.process import MeasuredProcess, python_process
from tablebell.postgres import Pool
from tablebell.testing import Database, eventually, free_port

OWNERS = """
SELECT pid, count(*)
  FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
 WHERE datname = current_database() AND locktype = 'advisory' AND classid = 42 AND objid < 16
 GROUP BY pid
"""


@asynccontextmanager
async def relays(
    count: int, database: Database, amqp_url: SecretStr, pool: Pool
) -> AsyncIterator[list[MeasuredProcess]]:
    """Enters after each relay has its partitions."""
    settings = {
        "DATABASE_URL": database.url_of("event_relay").get_secret_value(),
        "AMQP_URL": amqp_url.get_secret_value(),
        "LOG_LEVEL": "ERROR",
    }

    async def settled() -> bool:
        rows = await pool.fetch(OWNERS)
        return len(rows) == count and sum(row["count"] for row in rows) == 16

    async with AsyncExitStack() as processes:
        started = [
            await processes.enter_async_context(python_process("event_relay", port=free_port(), settings=settings))
            for _ in range(count)
        ]
        await eventually(settled, within=30, every=0.05)
        await asyncio.sleep(0.5)
        yield started
