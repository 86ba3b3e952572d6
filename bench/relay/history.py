"""What a claim costs with a long history, and while somebody keeps an old transaction open, beside a claim without."""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg

from bench.harness import Figure, Harness
from bench.relay import backlog
from bench.relay.backlog import DATA, EVENTS
from tablebell.outbox import CLAIM_PLANNER_SETTINGS, START, Level, OutboxQueue
from tablebell.postgres import Pool, connect, open_pool
from tablebell.testing import Database

HISTORY = int(os.environ.get("BENCH_RELAY_HISTORY", "5000000"))
BATCH = 500
ROUNDS = 3
OLD_SECONDS = 60
POLL_SECONDS = 5
BEYOND = 1_000_000_000

# As pg_dump would fill it: the rows first, then the indexes.
INDEXES = "SELECT indexdef FROM pg_indexes WHERE tablename = 'event_outbox' AND indexname <> 'event_outbox_pkey'"
NAMES = "SELECT indexname FROM pg_indexes WHERE tablename = 'event_outbox' AND indexname <> 'event_outbox_pkey'"
FILL = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, status, published_at)
SELECT 'RESERVATION_REQUESTED', number / 5, number % 5 + 1, $2, 'PUBLISHED', now() - number * interval '100 ms'
  FROM generate_series(1, $1::integer) AS number
"""


async def measure_history(harness: Harness) -> list[Figure]:
    async with harness.database() as empty, harness.database() as full:
        await _fill(harness, full)
        async with (
            open_pool(empty.url, "bench", 2, CLAIM_PLANNER_SETTINGS) as without,
            open_pool(full.url, "bench", 2, CLAIM_PLANNER_SETTINGS) as with_history,
        ):
            bare, history, held = Claims(), Claims(), Claims()
            for _ in range(ROUNDS):
                await bare.make(without)
                await history.make(with_history)
            harness.say(f"and for {OLD_SECONDS} s with an old transaction open, {EVENTS} events a poll")
            async with _old_transaction(full):
                until = time.monotonic() + OLD_SECONDS
                while time.monotonic() < until:
                    next_poll = time.monotonic() + POLL_SECONDS
                    await held.make(with_history)
                    await bare.make(without)
                    await asyncio.sleep(max(0.0, next_poll - time.monotonic()))
    note = f"{HISTORY:,} published rows, {BATCH} rows a claim"
    return [
        _figure("claim, long history", history.seconds, bare.seconds, note),
        _figure("… and an old transaction", held.seconds, bare.seconds, f"{note}; open for {OLD_SECONDS} s"),
        _figure("… a poll's first claim, from the start", held.first, bare.first, "the same", has_bar=False),
    ]


def _figure(name: str, ours: Sequence[float], bare: Sequence[float], note: str, *, has_bar: bool = True) -> Figure:
    value, ceiling = 1000 * statistics.median(ours), 1000 * statistics.median(bare)
    bar, ok = ("≤ 1.3 times none", value <= 1.3 * ceiling) if has_bar else ("", None)
    return Figure(name, value, "ms", ceiling, bar, ok, note)


async def _fill(harness: Harness, database: Database) -> None:
    harness.say(f"writing a history of {HISTORY:,} events")
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


class Claims:
    """How long they took."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.seconds: list[float] = []

    async def make(self, pool: Pool) -> None:
        """Sweeps through a backlog as the relay does after a poll: from the start, then on from where it came to."""
        outbox, after = OutboxQueue(Level.EVENT), START
        await backlog.append_young(pool, BEYOND + EVENTS * len(self.first))
        while True:
            began = time.perf_counter()
            batch = await outbox.claim(pool, list(range(16)), limit=BATCH, lease=timedelta(seconds=30), after=after)
            if after == START:
                self.first.append(time.perf_counter() - began)
            elif len(batch.rows) == BATCH:
                self.seconds.append(time.perf_counter() - began)
            await outbox.complete_if_leased(pool, [row["id"] for row in batch.rows], batch.token)
            after = batch.reached
            if not batch.more:
                return


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
