"""Operators' access to the outbox of all three levels: counts, dead rows, requeue and discard.

Every intervention is recorded with its admin and time in the same transaction. A dry run writes nothing.
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
MAX_ROWS = 1000

Intent = Literal["requeue", "discard"]


class StatusCount(CamelModel):
    level: Level
    status: str
    rows: int
    oldest_at: datetime | None = None
    oldest_seconds: float | None = None
    """The age of the oldest open or dead row."""
    last_minute: int | None = None
    """Rows completed within the last minute."""


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
    """Selects dead rows of one level: by id, by a part of their error, or by both."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"level": "notification_channel_send", "errorContains": "timeout", "dryRun": True}
        }
    )

    level: Level
    ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_ROWS)] | None = None
    error_contains: Text | None = None
    dry_run: StrictBool = False

    @model_validator(mode="after")
    def has_a_criterion(self) -> "Selection":
        if self.ids is None and self.error_contains is None:
            raise ValueError("ids or errorContains is required")
        return self


class Intervention(CamelModel):
    level: Level
    dry_run: bool
    ids: list[int]
    """The affected rows; with a dry run, the rows that would be affected."""
    not_requeued: list[Outdated]
    """Outdated rows. They are closed instead."""
    more: bool
    """More rows match than one call handles: call again."""


class OutboxAdmin:
    def __init__(self, pool: Pool, wakeup_sender: WakeupSender) -> None:
        self._pool = pool
        self._wakeup_sender = wakeup_sender
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
        """Ordered by level, then the oldest first."""
        start, after = decode(cursor, 2) if cursor else (0, 0)
        items: list[DeadRow] = []
        async with self._pool.acquire() as connection:
            for index, current in enumerate(LEVELS):
                if index < start or level not in (None, current) or len(items) > limit:
                    continue
                rows = await self._outboxes[current].find(
                    connection,
                    status="DEAD",
                    error_contains=error_contains,
                    after_id=after if index == start else 0,
                    limit=limit + 1 - len(items),
                )
                items += [_dead(current, row) for row in rows]
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
                limit=MAX_ROWS + 1,
            )
            ids = [row["id"] for row in rows[:MAX_ROWS]]
            outdated = await find_outdated(connection, selection.level, ids) if intent == "requeue" else []
            not_requeued = [Outdated(id=row["id"], reason=row["reason"]) for row in outdated]
            ids = sorted({*ids} - {row.id for row in not_requeued})
            if (ids or outdated) and not selection.dry_run:
                ids = await _apply(outbox, connection, intent, ids)
                await close_outdated(connection, selection.level, outdated)
                chosen = selection.model_dump(mode="json", by_alias=True, include={"ids", "error_contains"})
                if not_requeued:
                    chosen["notRequeued"] = [row.id for row in not_requeued]
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
                more=len(rows) > MAX_ROWS,
            )

        answer = await in_transaction(self._pool, work)
        if intent == "requeue" and not selection.dry_run:
            self._wakeup_sender.announce(selection.level)
        return answer


async def _apply(outbox: OutboxTable, connection: Connection, intent: Intent, ids: Sequence[int]) -> list[int]:
    if intent == "discard":
        return await outbox.discard(connection, ids)
    try:
        return await outbox.requeue(connection, ids)
    except asyncpg.UniqueViolationError:
        # Two dead reminders with the same schedule key: at most one of them may be open.
        raise Problem(
            ProblemType.NOT_POSSIBLE_NOW, "Two of these rows are the same reminder. Discard one of them."
        ) from None


def _open(level: Level, count: Count, now: datetime) -> StatusCount:
    age = max(0.0, (now - count.oldest).total_seconds())
    return StatusCount(level=level, status=count.status, rows=count.rows, oldest_at=count.oldest, oldest_seconds=age)


def _done(level: Level, count: CountDone) -> StatusCount:
    return StatusCount(level=level, status=count.status, rows=count.rows, last_minute=count.last_minute)


def _dead(level: Level, row: Record) -> DeadRow:
    columns: Mapping[str, Any] = dict(row)
    return DeadRow(
        level=level,
        id=columns["id"],
        subject=columns["subject"],
        aggregate_id=columns.get("aggregate_id"),
        notification_id=columns.get("notification_id"),
        attempts=columns["retry_count"],
        last_error=columns["last_error"],
        created_at=columns["created_at"],
    )
