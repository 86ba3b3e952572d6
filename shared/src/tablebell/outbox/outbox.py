"""The operations of an outbox, the same on all three levels.

Each level has its own SQL (`sql/<level>.sql`) with the same blocks, of which this class has one method each. A method
takes a connection and never commits: the use case decides what else belongs to the transaction.

A row is claimed under a lease: a token and an end, by the database's clock. Whoever writes a row's outcome shows the
token; a worker whose lease has passed to another writes nothing. A row whose worker died is claimed again when its
lease ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from tablebell.postgres import Executor
from tablebell.sqlfile import load_queries


class Level(StrEnum):
    """The levels by the name of their table, which is also the channel on which their work is announced."""

    EVENT = "event_outbox"
    NOTIFICATION = "notification_outbox"
    CHANNEL_SEND = "notification_channel_send"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """How far a sweep through the due rows has come.

    A claim that starts after the last one's position need not wade through the row versions which that one left dead,
    however long the vacuum is kept from them. A new sweep starts at START and so finds what became due in between.
    """

    due: datetime
    id: int


CLAIM_PLANNER_SETTINGS = {"enable_sort": "off", "enable_seqscan": "off", "enable_bitmapscan": "off"}
"""How the pool of whoever claims is to plan. Next to nothing is open most of the time, so PostgreSQL expects that, and
would read and sort all of it. When there is a backlog, a claim has to follow an index and stop after its limit."""

START = Position(datetime(1970, 1, 1, tzinfo=UTC), 0)


@dataclass(frozen=True, slots=True)
class Batch:
    token: UUID
    rows: Sequence[asyncpg.Record]
    reached: Position
    more: bool
    """The claim looked at as many rows as it was allowed to: there may be more beyond `reached`."""
    held: Sequence[asyncpg.Record] = ()
    """Due, but not leased: something before them has to be done first."""


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
    first_due: datetime
    """When the oldest of them was due for the first time, however often it has been put off since."""


@dataclass(frozen=True, slots=True)
class CountDone:
    status: str
    rows: int
    last_minute: int


class Outbox:
    def __init__(self, level: Level) -> None:
        self.level = level
        self.sql: Mapping[str, str] = load_queries("tablebell.outbox", "sql", f"{level}.sql")

    async def append(self, connection: Executor, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Add rows, given as the level's columns by name."""
        return [row["id"] for row in await connection.fetch(self.sql["append"], list(rows))]

    async def claim(
        self,
        connection: Executor,
        scope: Any,
        *,
        limit: int,
        lease: timedelta,
        after: Position = START,
        token: UUID | None = None,
    ) -> Batch:
        """Lease up to `limit` due rows of `scope`: partitions for L0 and L1, a channel for L2.

        Who claims again with a token keeps L0's order between its batches by itself: it is given the events that follow
        those that it still holds.
        """
        token = token or uuid4()
        rows = await connection.fetch(self.sql["claim"], scope, limit, token, lease, after.due, after.id)
        reached = max((Position(row["due"], row["id"]) for row in rows), default=after)
        leased = [row for row in rows if row["leased"]]
        held = [row for row in rows if not row["leased"]] if len(leased) < len(rows) else ()
        return Batch(token, leased, reached, more=len(rows) >= limit, held=held)

    async def find_due(
        self, connection: Executor, scope: Any, *, limit: int, after: Position = START
    ) -> list[Position]:
        """What a claim with these parameters would look at; leases nothing."""
        rows = await connection.fetch(self.sql["find_due"], scope, limit, after.due, after.id)
        return [Position(row["due"], row["id"]) for row in rows]

    async def extend_if_leased(
        self, connection: Executor, ids: Sequence[int], token: UUID, lease: timedelta
    ) -> list[int]:
        """Which of the rows are still ours; their lease starts anew."""
        return _ids(await connection.fetch(self.sql["extend_if_leased"], ids, token, lease))

    async def complete_if_leased(self, connection: Executor, ids: Sequence[int], token: UUID) -> list[int]:
        return _ids(await connection.fetch(self.sql["complete_if_leased"], ids, token))

    async def fail_if_leased(
        self, connection: Executor, failures: Sequence[Failure], token: UUID, max_attempts: int
    ) -> dict[int, str]:
        """Count an attempt and try again after a pause, or bury the row if that was the last; the new status by id."""
        ids, errors, pauses = _columns(failures)
        rows = await connection.fetch(self.sql["fail_if_leased"], ids, token, errors, pauses, max_attempts)
        return {row["id"]: row["status"] for row in rows}

    async def bury_if_leased(self, connection: Executor, failures: Sequence[Failure], token: UUID) -> list[int]:
        """Give up at once: another attempt could not end differently."""
        ids, errors, _ = _columns(failures)
        return _ids(await connection.fetch(self.sql["bury_if_leased"], ids, token, errors))

    async def bury_if_free(self, connection: Executor, failures: Sequence[Failure]) -> list[int]:
        """Give up on open rows that nobody has leased."""
        ids, errors, _ = _columns(failures)
        return _ids(await connection.fetch(self.sql["bury_if_free"], ids, errors))

    async def release_if_leased(self, connection: Executor, failures: Sequence[Failure], token: UUID) -> list[int]:
        """Put rows back as they were, without counting an attempt: what stood in the way was no fault of theirs."""
        ids, errors, pauses = _columns(failures)
        return _ids(await connection.fetch(self.sql["release_if_leased"], ids, token, errors, pauses))

    async def requeue(self, connection: Executor, ids: Sequence[int]) -> list[int]:
        """Give dead rows all their attempts again; which of them. A planned event with a successor stays dead."""
        return _ids(await connection.fetch(self.sql["requeue"], ids))

    async def discard(self, connection: Executor, ids: Sequence[int]) -> list[int]:
        """Close dead rows for good."""
        return _ids(await connection.fetch(self.sql["discard"], ids))

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

    async def count(self, connection: Executor) -> list[Count]:
        """What is open or dead, by status, with the oldest of each: cheap, whatever the history holds."""
        return [Count(**row) for row in await connection.fetch(self.sql["count"])]

    async def count_done(self, connection: Executor) -> list[CountDone]:
        """What is done, by status: reads the index of the whole history, so not for a metric that is scraped."""
        return [CountDone(**row) for row in await connection.fetch(self.sql["count_done"])]

    async def purge(self, connection: Executor, *, older_than: timedelta, limit: int) -> int:
        """Delete up to `limit` done rows past the retention; call it until it returns fewer. Dead rows stay."""
        return len(await connection.fetch(self.sql["purge"], older_than, limit))


def _ids(rows: Sequence[asyncpg.Record]) -> list[int]:
    return [row["id"] for row in rows]


def _columns(failures: Sequence[Failure]) -> tuple[list[int], list[str], list[timedelta]]:
    # An error from outside may hold anything; PostgreSQL takes no NUL and no lone surrogates, and an operator no novel.
    whole = (failure.error.encode("utf-8", "replace").decode() for failure in failures)
    errors = [error.replace("\x00", "")[:1000] for error in whole]
    return [failure.id for failure in failures], errors, [failure.pause for failure in failures]
