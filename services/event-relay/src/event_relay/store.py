"""One function per block of sql/queries.sql. Each takes a connection and never commits."""

from collections.abc import Sequence
from dataclasses import dataclass

from tablebell.outbox import Position
from tablebell.postgres import Connection, Executor
from tablebell.sqlfile import load_queries

SQL = load_queries("event_relay", "sql", "queries.sql")


@dataclass(frozen=True, slots=True)
class Outlook:
    due: bool
    next_in: float | None
    """Seconds until the next planned event or retry; None when there is none."""


async def look_ahead(connection: Executor, partitions: Sequence[int], after: Position) -> Outlook:
    row = await connection.fetchrow(SQL["look_ahead"], partitions, after.due, after.id)
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return Outlook(row["due"], row["next_in"])


async def find_orphans(connection: Connection, partitions: Sequence[int]) -> list[int]:
    return [row["id"] for row in await connection.fetch(SQL["find_orphans"], partitions)]


async def release_orphans(connection: Connection, ids: Sequence[int]) -> list[int]:
    return [row["id"] for row in await connection.fetch(SQL["release_orphans"], ids)]


async def bury_orphan(connection: Connection, row_id: int, error: str) -> bool:
    return await connection.fetchval(SQL["bury_orphan"], row_id, error) is not None


async def measure_lag(connection: Executor) -> float:
    seconds: float = await connection.fetchval(SQL["measure_lag"])
    return seconds


async def lock_purge(connection: Connection) -> bool:
    locked: bool = await connection.fetchval(SQL["lock_purge"])
    return locked
