"""Published events go after their retention; nothing else does."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from pydantic import SecretStr

from event_relay import store
from event_relay.purge import BITE, Purge
from tablebell.outbox import Level, Outbox
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, eventually

from .running import running_relay
from .source import Source

FILL = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, status, published_at, created_at)
SELECT 'RESERVATION_REQUESTED', number, 1, '{}', $2, CASE WHEN $2 = 'PUBLISHED' THEN now() - $3::interval END,
       now() - $3::interval
  FROM generate_series(1, $1::integer) AS number
"""
EIGHT_DAYS, SIX_DAYS, WEEK = timedelta(days=8), timedelta(days=6), timedelta(days=7)


def purge_of(pool: Pool, *, busy: bool = False) -> Purge:
    relay: Any = SimpleNamespace(busy=busy)
    return Purge(pool, Outbox(Level.EVENT), relay, WEEK)


async def test_a_relay_deletes_what_is_past_its_retention_in_bounded_bites_and_leaves_the_rest(
    database: Database, amqp_url: SecretStr, source: Source, pool: Pool
) -> None:
    await pool.execute(FILL, BITE + 500, "PUBLISHED", EIGHT_DAYS)
    await pool.execute(FILL, 30, "PUBLISHED", SIX_DAYS)
    await pool.execute(FILL, 20, "DEAD", EIGHT_DAYS)
    async with running_relay(database, amqp_url, relay_purge_seconds=0.2, retention_days=7):
        await eventually(lambda: purged(source, {"PUBLISHED": 30, "DEAD": 20}))
        await asyncio.sleep(0.5)
        assert await source.statuses() == {"PUBLISHED": 30, "DEAD": 20}


async def purged(source: Source, expected: dict[str, int]) -> bool:
    return await source.statuses() == expected


async def test_one_bite_is_bounded(database: Database, source: Source, pool: Pool) -> None:
    await pool.execute(FILL, BITE + 500, "PUBLISHED", EIGHT_DAYS)
    async with open_pool(database.url_of("event_relay"), "test", size=2) as own:
        assert await purge_of(own).run_once() is True
        assert await source.statuses() == {"PUBLISHED": 500}
        assert await purge_of(own).run_once() is False
        assert await source.statuses() == {}


async def test_one_relay_purges_at_a_time(source: Source, pool: Pool) -> None:
    await pool.execute(FILL, 10, "PUBLISHED", EIGHT_DAYS)
    async with pool.acquire() as other, other.transaction():
        assert await store.lock_purge(other)
        assert await purge_of(pool).run_once() is False
        assert await source.statuses() == {"PUBLISHED": 10}
    await purge_of(pool).run_once()
    assert await source.statuses() == {}


async def test_a_busy_relay_puts_the_purge_off(source: Source, pool: Pool) -> None:
    await pool.execute(FILL, 10, "PUBLISHED", EIGHT_DAYS)
    assert await purge_of(pool, busy=True).run_once() is True
    assert await source.statuses() == {"PUBLISHED": 10}
