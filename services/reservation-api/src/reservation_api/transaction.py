"""One transaction per use case, tried again when the database broke a deadlock at our expense."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from tablebell.postgres import Connection, Pool

ATTEMPTS = 3

T = TypeVar("T")


async def in_transaction(pool: Pool, work: Callable[[Connection], Awaitable[T]]) -> T:
    """`work` is called again from its beginning, so it must change nothing but the database."""
    attempt = 1
    while True:
        try:
            async with pool.acquire() as connection, connection.transaction():
                return await work(connection)
        except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
            if attempt == ATTEMPTS:
                raise
            attempt += 1
