"""The operations that all three levels have: search, requeue, discard, count, purge, and burial of a single bad row.

Each level has its own SQL (`sql/table/<level>.sql`) with the same blocks. This class has one method per block. A method
takes a connection and never commits: the use case decides what else belongs to the transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import asyncpg

from tablebell.postgres import Executor
from tablebell.sqlfile import load_queries

NO_PAUSE = timedelta(0)


class Level(StrEnum):
    """A level by the name of its table, which is also the channel of its wake-ups."""

    EVENT = "event_outbox"
    NOTIFICATION = "notification_outbox"
    CHANNEL_SEND = "notification_channel_send"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A cursor in the due rows: a claim continues after it.

    A claim that starts after the previous one's position skips the row versions that the previous one left dead, even
    while vacuum cannot remove them. A new pass starts at START and finds the rows that became due meanwhile.
    """

    due: datetime
    id: int


START = Position(datetime(1970, 1, 1, tzinfo=UTC), 0)


@dataclass(frozen=True, slots=True)
class Failure:
    id: int
    error: str
    pause: timedelta


@dataclass(frozen=True, slots=True)
class Count:
    status: str
    rows: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class Delay:
    channel: str | None
    """L2 is measured per channel, L0 and L1 as a whole."""
    lag_seconds: float
    """Since the oldest due row became due; 0 if none is due."""
    overdue_seconds: float
    """Since the oldest open row was first due; retries and releases do not change that time."""


@dataclass(frozen=True, slots=True)
class CountDone:
    status: str
    rows: int
    last_minute: int


class OutboxTable:
    def __init__(self, level: Level) -> None:
        self.level = level
        self.sql: Mapping[str, str] = load_queries("tablebell.outbox", "sql", "table", f"{level}.sql")

    async def find_due(
        self, connection: Executor, scope: Any, *, limit: int, after: Position = START
    ) -> list[Position]:
        """The rows that a claim would examine, without a lease. `scope`: partitions for L0 and L1, a channel for L2."""
        rows = await connection.fetch(self.sql["find_due"], scope, limit, after.due, after.id)
        return [Position(row["due"], row["id"]) for row in rows]

    async def bury_if_leased(self, connection: Executor, failures: Sequence[Failure], token: UUID) -> list[int]:
        """Mark rows dead at once, because a retry cannot succeed. Returns the ids that `token` still leased."""
        ids, errors, _ = columns_of(failures)
        return ids_of(await connection.fetch(self.sql["bury_if_leased"], ids, token, errors))

    async def bury_if_free(self, connection: Executor, failures: Sequence[Failure]) -> list[int]:
        """Mark open rows dead that no worker has leased."""
        ids, errors, _ = columns_of(failures)
        return ids_of(await connection.fetch(self.sql["bury_if_free"], ids, errors))

    async def find(
        self,
        connection: Executor,
        *,
        status: str,
        ids: Sequence[int] | None = None,
        error_contains: str | None = None,
        after_id: int = 0,
        limit: int = 100,
    ) -> list[asyncpg.Record]:
        return await connection.fetch(self.sql["find"], status, ids, error_contains, after_id, limit)

    async def requeue(self, connection: Executor, ids: Sequence[int]) -> list[int]:
        """Reopen dead rows with all their attempts; returns their ids. A planned event with a successor stays dead."""
        return ids_of(await connection.fetch(self.sql["requeue"], ids))

    async def discard(self, connection: Executor, ids: Sequence[int]) -> list[int]:
        """Close dead rows permanently."""
        return ids_of(await connection.fetch(self.sql["discard"], ids))

    async def count(self, connection: Executor) -> list[Count]:
        """Open and dead rows by status. The cost does not depend on the size of the history."""
        return [Count(**row) for row in await connection.fetch(self.sql["count"])]

    async def measure_delays(self, connection: Executor) -> list[Delay]:
        """The delays of the open rows. A channel without open rows is missing."""
        return [Delay(**row) for row in await connection.fetch(self.sql["measure_delays"])]

    async def count_done(self, connection: Executor) -> list[CountDone]:
        """Done rows by status. It reads the index of the whole history, so it is not for a scraped metric."""
        return [CountDone(**row) for row in await connection.fetch(self.sql["count_done"])]

    async def purge_done(self, connection: Executor, older_than: timedelta, limit: int) -> int:
        """Delete up to `limit` done rows past the retention; call it until it returns fewer."""
        return len(await connection.fetch(self.sql["purge_done"], older_than, limit))

    async def purge_dead(self, connection: Executor, older_than: timedelta, limit: int) -> int:
        """Delete up to `limit` rows that have been dead for longer than the retention."""
        return len(await connection.fetch(self.sql["purge_dead"], older_than, limit))


def ids_of(rows: Sequence[asyncpg.Record]) -> list[int]:
    return [row["id"] for row in rows]


def columns_of(failures: Sequence[Failure]) -> tuple[list[int], list[str], list[timedelta]]:
    """Ids, errors and pauses. PostgreSQL accepts no NUL and no lone surrogate in a text."""
    encodable = (failure.error.encode("utf-8", "replace").decode() for failure in failures)
    errors = [error.replace("\x00", "")[:1000] for error in encodable]
    return [failure.id for failure in failures], errors, [failure.pause for failure in failures]
