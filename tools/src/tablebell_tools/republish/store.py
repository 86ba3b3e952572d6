"""One function per block of sql/queries.sql. Each takes a connection and never commits."""

from collections.abc import Sequence

import asyncpg

from tablebell.postgres import Connection
from tablebell.sqlfile import load_queries
from tablebell_tools.republish.selection import Selection

SQL = load_queries("tablebell_tools.republish", "sql", "queries.sql")


async def find_published(
    connection: Connection, selection: Selection, *, after: int, limit: int
) -> list[asyncpg.Record]:
    return await connection.fetch(
        SQL["find_published"], after, limit, selection.since, selection.event, selection.type, selection.unhandled
    )


async def republish_events(connection: Connection, ids: Sequence[int]) -> list[int]:
    return [row["id"] for row in await connection.fetch(SQL["republish_events"], ids)]


async def append_intervention(connection: Connection, level: str, ids: Sequence[int], selection: Selection) -> None:
    await connection.execute(SQL["append_intervention"], level, ids, selection.as_json())


async def announce(connection: Connection, level: str) -> None:
    await connection.execute(SQL["announce"], level)
