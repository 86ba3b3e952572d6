"""What a claim costs with a long history, and while somebody keeps an old transaction open, beside a claim without."""

import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg

from bench.harness import Figure, Rig
from bench.relay import backlog
from bench.relay.backlog import DATA
from tablebell.outbox import CLAIMING, START, Level, Outbox
from tablebell.postgres import Pool, connect, open_pool
from tablebell.testing import Database

HISTORY = int(os.environ.get("BENCH_RELAY_HISTORY", "1000000"))
BATCH = 500
ROUNDS = 3

# As pg_dump would fill it: the rows first, then the indexes.
INDEXES = "SELECT indexdef FROM pg_indexes WHERE tablename = 'event_outbox' AND indexname <> 'event_outbox_pkey'"
NAMES = "SELECT indexname FROM pg_indexes WHERE tablename = 'event_outbox' AND indexname <> 'event_outbox_pkey'"
FILL = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, status, published_at)
SELECT 'RESERVATION_REQUESTED', number / 5, number % 5 + 1, $2, 'PUBLISHED', now() - number * interval '100 ms'
  FROM generate_series(1, $1::integer) AS number
"""


async def measure_history(rig: Rig) -> list[Figure]:
    async with rig.database() as empty, rig.database() as full:
        await _fill(rig, full)
        async with (
            open_pool(empty.url, "bench", 2, CLAIMING) as without,
            open_pool(full.url, "bench", 2, CLAIMING) as with_history,
        ):
            bare: list[float] = []
            history: list[float] = []
            for _ in range(ROUNDS):
                bare += await _claim_all(without)
                history += await _claim_all(with_history)
            async with _old_transaction(full):
                await _claim_all(with_history)
                held_back = await _claim_all(with_history)
                bare += await _claim_all(without)
    ours, held, ceiling = (1000 * statistics.median(each) for each in (history, held_back, bare))
    note = f"{HISTORY:,} published rows, {BATCH} rows a claim"
    return [
        Figure("claim, long history", ours, "ms", ceiling, "≤ 1.3 times none", ours <= 1.3 * ceiling, note),
        Figure("… and an old transaction", held, "ms", ceiling, "≤ 1.3 times none", held <= 1.3 * ceiling, note),
    ]


async def _fill(rig: Rig, database: Database) -> None:
    rig.say(f"writing a history of {HISTORY:,} events")
    connection = await connect(database.url, "bench")
    try:
        definitions = [row["indexdef"] for row in await connection.fetch(INDEXES)]
        for row in await connection.fetch(NAMES):
            await connection.execute(f"DROP INDEX {row['indexname']}")
        await connection.execute(FILL, HISTORY, DATA, timeout=600)
        for definition in definitions:
            await connection.execute(definition, timeout=600)
        await connection.execute("VACUUM ANALYZE event_outbox", timeout=600)
    finally:
        await connection.close()


async def _claim_all(pool: Pool) -> list[float]:
    """The seconds of each claim of a full batch, sweeping through a backlog as the relay does."""
    outbox, seconds, after = Outbox(Level.EVENT), [], START
    await backlog.append(pool)
    while True:
        began = time.perf_counter()
        batch = await outbox.claim(pool, list(range(16)), limit=BATCH, lease=timedelta(seconds=30), after=after)
        if len(batch.rows) == BATCH:
            seconds.append(time.perf_counter() - began)
        await outbox.complete_if_leased(pool, [row["id"] for row in batch.rows], batch.token)
        after = batch.reached
        if not batch.more:
            return seconds


@asynccontextmanager
async def _old_transaction(database: Database) -> AsyncIterator[None]:
    """Somebody who looked at the table and went for lunch: no dead row may be removed."""
    connection = await asyncpg.connect(database.url.get_secret_value())
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetchval("SELECT count(*) FROM reservation")
            yield
    finally:
        await connection.close()
