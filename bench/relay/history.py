"""Duration of a claim with a long history, and with an old transaction open, compared with a claim without history."""

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
FIRST_AGGREGATE_ID = 1_000_000_000

# Rows first, then indexes: faster for this many rows.
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
            bare, history, old_transaction = Claims(), Claims(), Claims()
            for _ in range(ROUNDS):
                await bare.make(without)
                await history.make(with_history)
            harness.say(f"and for {OLD_SECONDS} s with an old transaction open, {EVENTS} events a poll")
            async with _old_transaction(full):
                until = time.monotonic() + OLD_SECONDS
                while time.monotonic() < until:
                    next_poll = time.monotonic() + POLL_SECONDS
                    await old_transaction.make(with_history)
                    await bare.make(without)
                    await asyncio.sleep(max(0.0, next_poll - time.monotonic()))
    note = f"{HISTORY:,} published rows, {BATCH} rows a claim"
    return [
        _figure("claim, long history", history.seconds, bare.seconds, note),
        _figure("… and an old transaction", old_transaction.seconds, bare.seconds, f"{note}; open for {OLD_SECONDS} s"),
        _figure("… a poll's first claim, from the start", old_transaction.first, bare.first, "the same", has_bar=False),
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
    """Durations of claims in seconds."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.seconds: list[float] = []

    async def make(self, pool: Pool) -> None:
        """Claims a backlog as the relay does after a poll: from the start, then from the position reached."""
        outbox, after = OutboxQueue(Level.EVENT), START
        await backlog.append_new_reservations(pool, FIRST_AGGREGATE_ID + EVENTS * len(self.first))
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
    """An idle transaction, which keeps VACUUM from removing dead rows."""
    connection = await asyncpg.connect(database.url.get_secret_value())
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetchval("SELECT count(*) FROM reservation")
            yield
    finally:
        await connection.close()
