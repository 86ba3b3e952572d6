"""What a relay that is gone has left leased, in partitions that have just become ours.

It is put back, so that nobody waits for its lease to end. This runs before a relay may publish anything, so it never
fails because of a row: a row that cannot be put back is buried with the reason, and one that cannot even be buried is
left to its lease.
"""

from collections.abc import Sequence

import structlog

from event_relay import metrics, store
from tablebell.outage import describe, raise_if_outage
from tablebell.postgres import Connection

log = structlog.get_logger(__name__)


async def release_orphans(connection: Connection, partitions: Sequence[int]) -> None:
    ids = await store.find_orphans(connection, partitions)
    if not ids:
        return
    try:
        await store.release_orphans(connection, ids)
    except Exception as error:
        raise_if_outage(error)
        log.exception("orphans_not_released", events=len(ids))
        for row_id in ids:
            await _release(connection, row_id)


async def _release(connection: Connection, row_id: int) -> None:
    try:
        await store.release_orphans(connection, [row_id])
    except Exception as error:  # noqa: BLE001 - whatever the database says of it, the other rows are released
        raise_if_outage(error)
        await _bury(connection, row_id, f"the row could not be put back: {describe(error)}")


async def _bury(connection: Connection, row_id: int, reason: str) -> None:
    try:
        buried = await store.bury_orphan(connection, row_id, reason)
    except Exception as error:
        raise_if_outage(error)
        log.exception("row_not_buried", id=row_id, reason=reason)
    else:
        if buried:
            metrics.FAILURES.labels("dead").inc()
            log.error("row_buried", id=row_id, reason=reason)
