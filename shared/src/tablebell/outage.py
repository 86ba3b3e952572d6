"""The rule that separates an outage from an error of a single row or message.

An outage affects every row or message alike: a server is unreachable, or a statement fails for a reason other than the
data, such as a missing privilege or column. It is waited out, and it counts no attempt. An error that the data causes
concerns one row or message: it is retried or buried alone.
"""

import aiormq
import asyncpg

OUTAGES: tuple[type[Exception], ...] = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection broke during a call
    asyncpg.OperatorInterventionError,  # the server shuts down, crashed, or the session was terminated
    asyncpg.InsufficientResourcesError,  # too many connections, disk or memory full
    asyncpg.ReadOnlySQLTransactionError,  # the server was set to read-only; the pool replaces its connections
    asyncpg.InvalidCachedStatementError,  # a migration changed a result's columns; the statement is prepared again
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    aiormq.AMQPError,
    aiormq.exceptions.ChannelInvalidStateError,  # the channel was closed under the call
)

DATA_ERRORS = ("22", "23")
"""SQLSTATE classes of an error in a message's data: data exception, integrity constraint violation."""

ROW_ERRORS = (
    *DATA_ERRORS,
    "P0",  # raised by a trigger
    "XX001",  # data corrupted
    "XX002",  # index corrupted
)
"""SQLSTATEs, or their classes, of an error that a stored row can cause."""


class StatementRefused(ConnectionError):
    """The database refuses a statement for every row alike: an outage."""


def is_data_error(error: Exception, sqlstates: tuple[str, ...] = DATA_ERRORS) -> bool:
    """Whether the database refused the data of a single message or row."""
    return isinstance(error, asyncpg.PostgresError) and str(error.sqlstate or "").startswith(sqlstates)


def is_outage(error: Exception, sqlstates: tuple[str, ...] = DATA_ERRORS) -> bool:
    """Whether every other message or row would fail as well."""
    return isinstance(error, OUTAGES) or (
        isinstance(error, asyncpg.PostgresError) and not is_data_error(error, sqlstates)
    )


def raise_if_outage(error: Exception, sqlstates: tuple[str, ...] = ROW_ERRORS) -> None:
    """Return if a single row, or message, can be the cause of `error`; otherwise raise one of OUTAGES."""
    if isinstance(error, OUTAGES):
        raise error
    if is_outage(error, sqlstates):
        raise StatementRefused(describe(error)) from error


def describe(error: BaseException) -> str:
    """An error as one line for an operator."""
    return " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())[:500]
