"""Isolates rows that make a claim fail: one statement claims many rows, so one bad row fails it for all.

After such an error every due row is claimed alone and rolled back. Rows that the database rejects are buried with the
reason, and the next claim succeeds.
"""

import structlog

from channel_dispatcher import store
from tablebell.outage import StatementRefused, describe, raise_if_outage
from tablebell.outbox import NO_PAUSE, Failure, Level, OutboxTable, bury_alone
from tablebell.people import Channel
from tablebell.postgres import Connection, Pool

log = structlog.get_logger(__name__)

MAX_ROWS = 1000


async def bury_refused_rows(pool: Pool, channel: Channel, error: Exception) -> None:
    """`error` is the claim's exception. Raises an outage if no row is the cause."""
    raise_if_outage(error)
    outbox = OutboxTable(Level.CHANNEL_SEND)
    buried = 0
    async with pool.acquire() as connection:
        for position in await outbox.find_due(connection, channel, limit=MAX_ROWS):
            refusal = await _refusal(connection, position.id)
            if refusal is not None:
                reason = f"the row could not be claimed: {describe(refusal)}"
                buried += await bury_alone(outbox, connection, Failure(position.id, reason, NO_PAUSE))
    if not buried:
        raise StatementRefused(f"the claim failed, and no due row is the cause: {describe(error)}") from error


async def _refusal(connection: Connection, row_id: int) -> Exception | None:
    transaction = connection.transaction()
    await transaction.start()
    try:
        await store.try_claim(connection, row_id)
    except Exception as error:
        raise_if_outage(error)
        log.exception("row_not_claimed", level=Level.CHANNEL_SEND, id=row_id)
        return error
    finally:
        await transaction.rollback()
    return None
