"""Isolation of a row that breaks its batch: the row is buried with the reason, and the other rows continue.

One statement serves a whole batch, so one row that the database refuses (a violated constraint, a damaged page, a
trigger) fails the statement for all rows. After such an error the work is repeated row by row. An outage is raised and
buries nothing (`tablebell.outage`).
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import structlog

from tablebell.outage import describe, raise_if_outage
from tablebell.outbox.queue import Batch, OutboxQueue
from tablebell.outbox.table import NO_PAUSE, START, Failure, OutboxTable, Position
from tablebell.postgres import Connection, Executor

log = structlog.get_logger(__name__)


async def claim_one_by_one(
    outbox: OutboxQueue,
    connection: Connection,
    partitions: Sequence[int],
    *,
    limit: int,
    lease: timedelta,
    after: Position = START,
    token: UUID | None = None,
) -> Batch:
    """Claim like `OutboxQueue.claim`, with one statement per row. A row that cannot be leased is buried."""
    token = token or uuid4()
    due = await outbox.find_due(connection, partitions, limit=limit, after=after)
    leased: list[asyncpg.Record] = []
    held: list[asyncpg.Record] = []
    for position in due:
        before_it = Position(position.due, position.id - 1)
        try:
            async with connection.transaction():
                one = await outbox.claim(connection, partitions, limit=1, lease=lease, after=before_it, token=token)
        except Exception as error:
            raise_if_outage(error)
            log.exception("row_not_claimed", level=outbox.level, id=position.id)
            failure = Failure(position.id, f"the row could not be claimed: {describe(error)}", NO_PAUSE)
            await bury_alone(outbox, connection, failure)
        else:
            leased += one.rows
            held += one.held
    return Batch(token, leased, max(due, default=after), more=len(due) >= limit, held=held)


async def bury_alone(outbox: OutboxTable, connection: Executor, failure: Failure, *, token: UUID | None = None) -> bool:
    """Bury one row under the lease of `token`, or without a token if it is not leased. Returns whether it is buried.

    A row that cannot be buried stays as it is and blocks no other row. It is tried again when its lease ends, or by the
    next claim.
    """
    try:
        if isinstance(connection, asyncpg.Pool):
            buried = await _bury(outbox, connection, failure, token)
        else:
            async with connection.transaction():
                buried = await _bury(outbox, connection, failure, token)
    except Exception as error:
        raise_if_outage(error)
        log.exception("row_not_buried", level=outbox.level, id=failure.id, reason=failure.error)
        return False
    if buried:
        log.error("row_buried", level=outbox.level, id=failure.id, reason=failure.error)
    return bool(buried)


async def _bury(outbox: OutboxTable, connection: Executor, failure: Failure, token: UUID | None) -> list[int]:
    if token is None:
        return await outbox.bury_if_free(connection, [failure])
    return await outbox.bury_if_leased(connection, [failure], token)
