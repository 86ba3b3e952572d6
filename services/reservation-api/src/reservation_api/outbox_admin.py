"""The operators' view of the three levels: what waits, what is dead, and the dead brought back or let go.

Every act on the dead is recorded with who and when, in the same transaction; a dry run does neither.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import asyncpg
from asyncpg import Record
from pydantic import ConfigDict, Field, StrictBool, model_validator

from reservation_api import store
from reservation_api.outdated import Outdated, close_outdated, find_outdated
from reservation_api.paging import Page, decode, encode
from reservation_api.problem import Problem, ProblemType
from reservation_api.schemas import Body, Id, Text
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel
from tablebell.outbox import Count, CountDone, Level, OutboxTable
from tablebell.postgres import Connection, Pool
from tablebell.tokens import Identity
from tablebell.wakeups import WakeupSender

LEVELS = tuple(Level)
MOST_AT_ONCE = 1000

Intent = Literal["requeue", "discard"]


class StatusCount(CamelModel):
    level: Level
    status: str
    rows: int
    oldest_at: datetime | None = None
    oldest_seconds: float | None = None
    """The age of the oldest open or dead row."""
    last_minute: int | None = None
    """How many were done within the last minute."""


class OutboxCounts(CamelModel):
    counts: list[StatusCount]


class DeadRow(CamelModel):
    level: Level
    id: int
    subject: str
    """The event type, the audience or the channel."""
    aggregate_id: int | None = None
    notification_id: int | None = None
    attempts: int
    last_error: str | None
    created_at: datetime


class Selection(Body):
    """Dead rows of one level: by id, or by part of their error, or both."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"level": "notification_channel_send", "errorContains": "timeout", "dryRun": True}
        }
    )

    level: Level
    ids: Annotated[list[Id], Field(min_length=1, max_length=MOST_AT_ONCE)] | None = None
    error_contains: Text | None = None
    dry_run: StrictBool = False

    @model_validator(mode="after")
    def says_which(self) -> "Selection":
        if self.ids is None and self.error_contains is None:
            raise ValueError("say which: ids, errorContains or both")
        return self


class Intervention(CamelModel):
    level: Level
    dry_run: bool
    ids: list[int]
    """The rows that were, or with a dry run would be, affected."""
    not_requeued: list[Outdated]
    """Rows that are closed instead: what they tell is settled, superseded or too late."""
    more: bool
    """There are more than one call takes: call again."""


class OutboxAdmin:
    def __init__(self, pool: Pool, wakeup_sender: WakeupSender) -> None:
        self._pool = pool
        self._announcer = wakeup_sender
        self._outboxes = {level: OutboxTable(level) for level in LEVELS}

    async def counts(self) -> OutboxCounts:
        now = datetime.now(UTC)
        counts: list[StatusCount] = []
        async with self._pool.acquire() as connection:
            for level, outbox in self._outboxes.items():
                counts += [_open(level, count, now) for count in await outbox.count(connection)]
                counts += [_done(level, count) for count in await outbox.count_done(connection)]
        return OutboxCounts(counts=counts)

    async def dead(
        self, level: Level | None, error_contains: str | None, cursor: str | None, limit: int
    ) -> Page[DeadRow]:
        """Level by level, the oldest first."""
        place, after = decode(cursor, 2) if cursor else (0, 0)
        items: list[DeadRow] = []
        async with self._pool.acquire() as connection:
            for number, one in enumerate(LEVELS):
                if number < place or level not in (None, one) or len(items) > limit:
                    continue
                rows = await self._outboxes[one].find(
                    connection,
                    status="DEAD",
                    error_contains=error_contains,
                    after_id=after if number == place else 0,
                    limit=limit + 1 - len(items),
                )
                items += [_dead(one, row) for row in rows]
        page, last = items[:limit], items[:limit][-1:]
        more = len(items) > limit
        return Page(items=page, next_cursor=encode(LEVELS.index(last[0].level), last[0].id) if more else None)

    async def intervene(self, identity: Identity, intent: Intent, selection: Selection) -> Intervention:
        outbox = self._outboxes[selection.level]

        async def work(connection: Connection) -> Intervention:
            rows = await outbox.find(
                connection,
                status="DEAD",
                ids=selection.ids,
                error_contains=selection.error_contains,
                limit=MOST_AT_ONCE + 1,
            )
            ids = [row["id"] for row in rows[:MOST_AT_ONCE]]
            outdated = await find_outdated(connection, selection.level, ids) if intent == "requeue" else []
            not_requeued = [Outdated(id=row["id"], reason=row["reason"]) for row in outdated]
            ids = sorted({*ids} - {one.id for one in not_requeued})
            if (ids or outdated) and not selection.dry_run:
                ids = await _change(outbox, connection, intent, ids)
                await close_outdated(connection, selection.level, outdated)
                chosen = selection.model_dump(mode="json", by_alias=True, include={"ids", "error_contains"})
                if not_requeued:
                    chosen["notRequeued"] = [one.id for one in not_requeued]
                await store.append_intervention(
                    connection,
                    level=selection.level,
                    act=intent,
                    row_ids=ids,
                    chosen=chosen,
                    admin_id=identity.user_id,
                )
            return Intervention(
                level=selection.level,
                dry_run=selection.dry_run,
                ids=sorted(ids),
                not_requeued=not_requeued,
                more=len(rows) > MOST_AT_ONCE,
            )

        answer = await in_transaction(self._pool, work)
        if intent == "requeue" and not selection.dry_run:
            self._announcer.announce(selection.level)
        return answer


async def _change(outbox: OutboxTable, connection: Connection, intent: Intent, ids: Sequence[int]) -> list[int]:
    if intent == "discard":
        return await outbox.discard(connection, ids)
    try:
        return await outbox.requeue(connection, ids)
    except asyncpg.UniqueViolationError:
        # Two dead reminders of the same kind and version: an aggregate has one open at most.
        raise Problem(
            ProblemType.NOT_POSSIBLE_NOW, "Two of these reminders are the same: discard one of them."
        ) from None


def _open(level: Level, count: Count, now: datetime) -> StatusCount:
    age = max(0.0, (now - count.oldest).total_seconds())
    return StatusCount(level=level, status=count.status, rows=count.rows, oldest_at=count.oldest, oldest_seconds=age)


def _done(level: Level, count: CountDone) -> StatusCount:
    return StatusCount(level=level, status=count.status, rows=count.rows, last_minute=count.last_minute)


def _dead(level: Level, row: Record) -> DeadRow:
    given: Mapping[str, Any] = dict(row)
    return DeadRow(
        level=level,
        id=given["id"],
        subject=given["subject"],
        aggregate_id=given.get("aggregate_id"),
        notification_id=given.get("notification_id"),
        attempts=given["retry_count"],
        last_error=given["last_error"],
        created_at=given["created_at"],
    )
