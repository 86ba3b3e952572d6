"""One function per block of sql/queries.sql. Each takes a connection and never commits."""

from collections.abc import Sequence
from dataclasses import dataclass

from tablebell.outbox import Position
from tablebell.postgres import Connection, Executor
from tablebell.sqlfile import load_queries

SQL = load_queries("event_relay", "sql", "queries.sql")


@dataclass(frozen=True, slots=True)
class NextDue:
    is_due: bool
    """An event can be claimed now."""
    seconds_until_next: float | None
    """Until the next planned event or retry; None when there is none."""


async def find_next_due(connection: Executor, partitions: Sequence[int], after: Position) -> NextDue:
    row = await connection.fetchrow(SQL["find_next_due"], partitions, after.due, after.id)
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return NextDue(**row)


async def find_abandoned(connection: Connection, partitions: Sequence[int]) -> list[int]:
    return [row["id"] for row in await connection.fetch(SQL["find_abandoned"], partitions)]


async def release_abandoned(connection: Connection, ids: Sequence[int]) -> list[int]:
    return [row["id"] for row in await connection.fetch(SQL["release_abandoned"], ids)]


async def bury_abandoned(connection: Connection, row_id: int, error: str) -> bool:
    return await connection.fetchval(SQL["bury_abandoned"], row_id, error) is not None
