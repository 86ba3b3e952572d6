"""Releases the leases that the previous owner of a partition left behind, so that their events are published at once.

This runs when partitions are acquired, before anything of them is published. It never fails because of a row: a row
that cannot be released is buried with the reason, and a row that cannot be buried stays leased until its lease
expires.
"""

from collections.abc import Sequence

import structlog

from event_relay import metrics, store
from tablebell.outage import describe, raise_if_outage
from tablebell.postgres import Connection

log = structlog.get_logger(__name__)


async def release_abandoned_leases(connection: Connection, partitions: Sequence[int]) -> None:
    ids = await store.find_abandoned(connection, partitions)
    if not ids:
        return
    try:
        await store.release_abandoned(connection, ids)
    except Exception as error:
        raise_if_outage(error)
        log.exception("leases_not_released", events=len(ids))
        for row_id in ids:
            await _release(connection, row_id)


async def _release(connection: Connection, row_id: int) -> None:
    try:
        await store.release_abandoned(connection, [row_id])
    except Exception as error:  # noqa: BLE001 - one row must not prevent the release of the others
        raise_if_outage(error)
        await _bury(connection, row_id, f"the row could not be released: {describe(error)}")


async def _bury(connection: Connection, row_id: int, reason: str) -> None:
    try:
        buried = await store.bury_abandoned(connection, row_id, reason)
    except Exception as error:
        raise_if_outage(error)
        log.exception("row_not_buried", id=row_id, reason=reason)
    else:
        if buried:
            metrics.FAILURES.labels("dead").inc()
            log.error("row_buried", id=row_id, reason=reason)
