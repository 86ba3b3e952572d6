"""One transaction per use case, retried after a transient error.

Transient are deadlocks, serialization failures, and migrations: a prepared statement whose columns have changed fails
once inside a transaction and is then prepared again.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from tablebell.postgres import Connection, Pool

ATTEMPTS = 3
TRANSIENT = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)

T = TypeVar("T")


async def in_transaction(pool: Pool, work: Callable[[Connection], Awaitable[T]], *, one_snapshot: bool = False) -> T:
    """`work` may be called again, so it must have no effects outside the database.

    With `one_snapshot` all its statements see the same state of the database, and it must only read.
    """
    options: dict[str, Any] = {"isolation": "repeatable_read", "readonly": True} if one_snapshot else {}
    attempt = 1
    while True:
        try:
            async with pool.acquire() as connection, connection.transaction(**options):
                return await work(connection)
        except TRANSIENT:
            if attempt == ATTEMPTS:
                raise
            attempt += 1
