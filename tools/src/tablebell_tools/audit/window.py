"""The time window of an audit, and the first id of each table in it.

The tables have no index on their creation time. Ids grow with time, up to the duration of a transaction, so a binary
search finds the first id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import asyncpg

from tablebell.sqlfile import load_queries

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

POSITIONS = load_queries("tablebell_tools.audit", "sql", "positions.sql")

LARGEST_ID = 2**62
# Ids are assigned before the commit: neighbours may differ by the duration of a transaction.
COMMIT_SKEW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Window:
    since: datetime
    until: datetime
    overdue: datetime
    """An open row that was first due before this is overdue."""
    first_ids: Mapping[str, int]

    def parameters(self) -> dict[str, object]:
        """`since`, `until`, `overdue`, and the first id of each table by its name."""
        return {"since": self.since, "until": self.until, "overdue": self.overdue, **self.first_ids}


async def open_window(connection: Connection, reach: timedelta, settle: timedelta, overdue: timedelta) -> Window:
    """From `reach` ago to `settle` ago, by the database's clock. Purged history is not part of it."""
    now: datetime = await connection.fetchval("SELECT now()")
    purged_before: datetime | None = await connection.fetchval("SELECT max(purged_before) FROM purge_horizon")
    since = max(now - reach, purged_before) if purged_before else now - reach
    first_ids = {table: await _first_id(connection, query, since - COMMIT_SKEW) for table, query in POSITIONS.items()}
    return Window(since, now - settle, now - overdue, first_ids)


async def _first_id(connection: Connection, query: str, since: datetime) -> int:
    low, high = 0, LARGEST_ID
    while low < high:
        middle = (low + high) // 2
        row = await connection.fetchrow(query, middle)
        if row is None or row["at"] >= since:
            high = middle
        else:
            low = row["id"] + 1
    return low
