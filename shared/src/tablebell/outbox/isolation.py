"""Isolation of a row that breaks its batch: the row is buried with the reason, and the others go on.

One statement serves a whole batch, so one row that the database refuses (a violated constraint, a damaged page, a
trigger) fails the statement for all. After such an error the work is done again row by row.

Only an error that a row can cause is treated like that. Any other error of the database (a missing right, a missing
column) concerns every row: it is an outage, it is waited out, and no row is buried for it.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import structlog

from tablebell.outage import OUTAGES, describe
from tablebell.outbox.queue import Batch, OutboxQueue
from tablebell.outbox.table import NO_PAUSE, START, Failure, OutboxTable, Position
from tablebell.postgres import Connection, Executor

log = structlog.get_logger(__name__)

CAUSED_BY_A_ROW = (
    "22",  # data exception
    "23",  # integrity constraint violation
    "P0",  # raised by a trigger
    "XX001",  # data corrupted
    "XX002",  # index corrupted
)
"""SQLSTATEs and their classes."""


class StatementRefused(ConnectionError):
    """The database refuses a statement, and no row is to blame: an outage."""


def blame_row(error: Exception) -> None:
    """Returns if a row can be the cause of `error`; otherwise raises an outage."""
    if isinstance(error, OUTAGES):
        raise error
    if isinstance(error, asyncpg.PostgresError) and not str(error.sqlstate).startswith(CAUSED_BY_A_ROW):
        raise StatementRefused(describe(error)) from error


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
    """As `OutboxQueue.claim`, with one statement per row. A row that cannot be leased is buried."""
    token = token or uuid4()
    due = await outbox.find_due(connection, partitions, limit=limit, after=after)
    leased: list[asyncpg.Record] = []
    held: list[asyncpg.Record] = []
    for position in due:
        just_before = Position(position.due, position.id - 1)
        try:
            async with connection.transaction():
                one = await outbox.claim(connection, partitions, limit=1, lease=lease, after=just_before, token=token)
        except Exception as error:
            blame_row(error)
            log.exception("row_not_claimed", level=outbox.level, id=position.id)
            failure = Failure(position.id, f"the row could not be claimed: {describe(error)}", NO_PAUSE)
            await bury_alone(outbox, connection, failure)
        else:
            leased += one.rows
            held += one.held
    return Batch(token, leased, max(due, default=after), more=len(due) >= limit, held=held)


async def bury_alone(outbox: OutboxTable, connection: Executor, failure: Failure, *, token: UUID | None = None) -> bool:
    """Whether the row is buried: under the lease of `token`, or without one if nobody has leased it.

    A row that cannot even be buried stays as it is. It is met again when its lease ends or at the next sweep, and stops
    nobody until then.
    """
    try:
        if isinstance(connection, asyncpg.Pool):
            buried = await _bury(outbox, connection, failure, token)
        else:
            async with connection.transaction():
                buried = await _bury(outbox, connection, failure, token)
    except Exception as error:
        blame_row(error)
        log.exception("row_not_buried", level=outbox.level, id=failure.id, reason=failure.error)
        return False
    if buried:
        log.error("row_buried", level=outbox.level, id=failure.id, reason=failure.error)
    return bool(buried)


async def _bury(outbox: OutboxTable, connection: Executor, failure: Failure, token: UUID | None) -> list[int]:
    if token is None:
        return await outbox.bury_if_free(connection, [failure])
    return await outbox.bury_if_leased(connection, [failure], token)
