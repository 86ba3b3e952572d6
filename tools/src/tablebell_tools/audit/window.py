"""The time that an audit looks at, and the ids with which it begins in each table.

No table has an index on the time when its rows were made, and none needs one for this: ids are given in the order of
time, give or take the length of a transaction, so the beginning is found by halving.
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
# An id may be older than its neighbours by as long as a transaction takes.
SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Window:
    since: datetime
    until: datetime
    overdue: datetime
    """What was first due before this and is still open has been put off for too long."""
    first_ids: Mapping[str, int]

    def parameter(self, name: str) -> object:
        """`since`, `until`, `overdue`, or the first id of a table."""
        return {"since": self.since, "until": self.until, "overdue": self.overdue, **self.first_ids}[name]


async def open_window(connection: Connection, reach: timedelta, settle: timedelta, overdue: timedelta) -> Window:
    """From `reach` ago to `settle` ago, by the database's clock."""
    now: datetime = await connection.fetchval("SELECT now()")
    since = now - reach
    first_ids = {table: await _first_id(connection, query, since - SLACK) for table, query in POSITIONS.items()}
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
