"""The run's queries: one function per block of sql/queries.sql."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeAlias

import asyncpg

from tablebell.sqlfile import load_queries

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Row(Protocol):
    """A row of the database, by its columns' names."""

    def __getitem__(self, column: str, /) -> Any: ...


SQL = load_queries("chaos", "sql", "queries.sql")


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(url, timeout=30, command_timeout=60)
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def append_people(connection: Connection, restaurants: int, customers: int) -> asyncpg.Record:
    (row,) = await connection.fetch(SQL["append_people"], restaurants, customers)
    return row


async def terminate_backends(connection: Connection) -> int:
    count: int = await connection.fetchval(SQL["terminate_backends"])
    return count


async def count_open(connection: Connection, first_event: int) -> asyncpg.Record:
    (row,) = await connection.fetch(SQL["count_open"], first_event)
    return row


async def next_event(connection: Connection) -> int:
    identity: int = await connection.fetchval(SQL["next_event"])
    return identity


async def list_reservations(connection: Connection, customers: Sequence[int]) -> list[asyncpg.Record]:
    return await connection.fetch(SQL["list_reservations"], customers)


async def list_events(connection: Connection, customers: Sequence[int]) -> list[asyncpg.Record]:
    return await connection.fetch(SQL["list_events"], customers)


async def list_sends(connection: Connection) -> list[asyncpg.Record]:
    return await connection.fetch(SQL["list_sends"])


async def list_inbox(connection: Connection, user_type: str, user_id: int) -> list[asyncpg.Record]:
    return await connection.fetch(SQL["list_inbox"], user_type, user_id)
