"""An outage: the thing behind us is away, and no row or message is to blame. Outages burn no attempts."""

import aiormq
import asyncpg

OUTAGES: tuple[type[Exception], ...] = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg says on a connection that broke at the wrong moment
    asyncpg.OperatorInterventionError,  # the server shuts down, crashed, or an operator ended our session
    asyncpg.InsufficientResourcesError,  # too many connections, disk or memory full
    asyncpg.ReadOnlySQLTransactionError,  # the server was set to read-only; the pool replaces its connections
    asyncpg.InvalidCachedStatementError,  # a migration changed a result's columns; the statement is prepared again
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    aiormq.AMQPError,
    aiormq.exceptions.ChannelInvalidStateError,  # the channel was closed under the call
)

# The classes of SQLSTATE by which the database refuses the data itself: data exception, integrity constraint violation.
DATA_ERRORS = ("22", "23")


def is_data_error(error: Exception) -> bool:
    """Whether the database refused the data of the row or message itself."""
    return isinstance(error, asyncpg.PostgresError) and str(error.sqlstate or "").startswith(DATA_ERRORS)


def is_outage(error: Exception) -> bool:
    """Whether the cause lies behind us, so that every other row or message would fail as well.

    That is an OUTAGE, or any other error of the database that the data did not cause: a missing right or column.
    """
    return isinstance(error, OUTAGES) or (isinstance(error, asyncpg.PostgresError) and not is_data_error(error))


def describe(error: BaseException) -> str:
    """An error as one line for an operator."""
    return " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())[:500]
