"""One transaction per use case, run again when PostgreSQL ended it for a reason that does not recur.

That is a deadlock, a conflict of two transactions, or a migration: a prepared statement whose columns have changed
fails once inside a transaction, and is prepared again afterwards.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from tablebell.postgres import Connection, Pool

ATTEMPTS = 3
PASSING = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)

T = TypeVar("T")


async def in_transaction(pool: Pool, work: Callable[[Connection], Awaitable[T]], *, one_snapshot: bool = False) -> T:
    """`work` is called again from its beginning, so it must change nothing but the database.

    With `one_snapshot` all its statements see the same state of the database, and it may only read.
    """
    how: dict[str, Any] = {"isolation": "repeatable_read", "readonly": True} if one_snapshot else {}
    attempt = 1
    while True:
        try:
            async with pool.acquire() as connection, connection.transaction(**how):
                return await work(connection)
        except PASSING:
            if attempt == ATTEMPTS:
                raise
            attempt += 1
