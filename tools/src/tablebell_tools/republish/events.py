"""Published events of L0 become PENDING again, a bounded number per transaction.

The relay publishes them in the order of each reservation. A listener skips what it has had, and tells what it has not
had.
"""

from collections.abc import Callable

import asyncpg

from tablebell.outbox import Level
from tablebell.postgres import Connection
from tablebell_tools.republish import store
from tablebell_tools.republish.selection import Outcome, Selection

BATCH = 500
PLANNED_ANEW = "planned anew"


async def republish_events(
    connection: Connection, selection: Selection, *, dry_run: bool, progress: Callable[[Outcome], None]
) -> Outcome:
    """Each batch is committed by itself: what is interrupted is done as far as it came, and can be started again."""
    outcome, after = Outcome(), 0
    while True:
        async with connection.transaction():
            rows = await store.find_published(connection, selection, after=after, limit=BATCH)
            ids = await _republish(connection, rows, outcome, dry_run=dry_run)
            if ids and not dry_run:
                await store.append_intervention(connection, Level.EVENT, ids, selection)
        if ids and not dry_run:
            await store.announce(connection, Level.EVENT)
        if len(rows) < BATCH:
            return outcome
        after = rows[-1]["id"]
        progress(outcome)


async def _republish(
    connection: Connection, rows: list[asyncpg.Record], outcome: Outcome, *, dry_run: bool
) -> list[int]:
    outcome.kept.update(row["reason"] for row in rows if row["reason"])
    chosen = [row for row in rows if row["reason"] is None]
    if not dry_run:
        done = set(await store.republish_events(connection, [row["id"] for row in chosen if not row["schedule_key"]]))
        for row in chosen:
            if row["schedule_key"]:
                done.update(await _republish_planned(connection, row["id"], outcome))
        chosen = [row for row in chosen if row["id"] in done]
    for row in chosen:
        aggregate = f"{row['aggregate_type']} {row['aggregate_id']}, version {row['aggregate_version']}"
        outcome.add(f"{row['event_type']} of {aggregate} ({row['event_id']})")
    return [row["id"] for row in chosen]


async def _republish_planned(connection: Connection, row_id: int, outcome: Outcome) -> list[int]:
    """By itself: its successor may have been planned since the rows were read."""
    try:
        async with connection.transaction():
            return await store.republish_events(connection, [row_id])
    except asyncpg.UniqueViolationError:
        outcome.kept[PLANNED_ANEW] += 1
        return []
