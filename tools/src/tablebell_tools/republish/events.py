"""Sets published events of L0 to PENDING again, a bounded number per transaction.

The relay publishes them in the order of each reservation. A listener skips the events that it has handled.
"""

from collections.abc import Callable

import asyncpg

from tablebell.outbox import Level
from tablebell.postgres import Connection
from tablebell_tools.republish import store
from tablebell_tools.republish.selection import RepublishResult, Selection

BATCH = 500
PLANNED_ANEW = "planned anew"


async def republish_events(
    connection: Connection, selection: Selection, *, dry_run: bool, progress: Callable[[RepublishResult], None]
) -> RepublishResult:
    """Commits each batch, so an interrupted run can be started again."""
    result, after = RepublishResult(), 0
    while True:
        async with connection.transaction():
            rows = await store.find_published(connection, selection, after=after, limit=BATCH)
            ids = await _republish(connection, rows, result, dry_run=dry_run)
            if ids and not dry_run:
                await store.append_intervention(connection, Level.EVENT, ids, selection)
        if ids and not dry_run:
            await store.announce(connection, Level.EVENT)
        if len(rows) < BATCH:
            return result
        after = rows[-1]["id"]
        progress(result)


async def _republish(
    connection: Connection, rows: list[asyncpg.Record], result: RepublishResult, *, dry_run: bool
) -> list[int]:
    result.skipped.update(row["reason"] for row in rows if row["reason"])
    chosen = [row for row in rows if row["reason"] is None]
    if not dry_run:
        done = set(await store.republish_events(connection, [row["id"] for row in chosen if not row["schedule_key"]]))
        for row in chosen:
            if row["schedule_key"]:
                done.update(await _republish_planned(connection, row["id"], result))
        chosen = [row for row in chosen if row["id"] in done]
    for row in chosen:
        aggregate = f"{row['aggregate_type']} {row['aggregate_id']}, version {row['aggregate_version']}"
        result.add(f"{row['event_type']} of {aggregate} ({row['event_id']})")
    return [row["id"] for row in chosen]


async def _republish_planned(connection: Connection, row_id: int, result: RepublishResult) -> list[int]:
    """In its own savepoint: a successor may have been scheduled since the rows were read."""
    try:
        async with connection.transaction():
            return await store.republish_events(connection, [row_id])
    except asyncpg.UniqueViolationError:
        result.skipped[PLANNED_ANEW] += 1
        return []
