"""The inbox: a person's notifications, the newest first, and their read marks.

A shared notification is marked as read for all staff in one transaction, so that all unread counts agree.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from asyncpg import Record

from reservation_api import store
from reservation_api.event_factory import notification_event
from reservation_api.paging import Page, decode, encode
from reservation_api.people import Person, find_person
from reservation_api.problem import not_found
from reservation_api.schemas import LARGEST_ID
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel, EventType, NotificationData
from tablebell.inbox import NotificationView, Resolution, actions_of
from tablebell.outbox import Level
from tablebell.postgres import Connection, Pool
from tablebell.tokens import Identity
from tablebell.wakeups import WakeupSender


class Counts(CamelModel):
    unread: int
    open: int
    """How many wait for your answer."""


class ReadAll(CamelModel):
    read: int
    """How many notifications were unread."""


def view(row: store.Row) -> NotificationView:
    """Convert a row of the database view `inbox`."""
    resolution = None
    if row["action_type"] is not None:
        resolution = Resolution(
            action=row["action_type"],
            actor_type=row["actor_type"],
            actor_id=row["actor_id"],
            actor_name=row["actor_name"] or "",
            at=row["acted_at"],
            outcome=row["outcome"],
        )
    return NotificationView(
        id=row["id"],
        event_notification_id=row["event_notification_id"],
        event_type=row["event_type"],
        reservation_id=row["reservation_id"],
        title=row["title"],
        body=row["body"],
        properties=row["properties"],
        shared=row["shared_read"],
        actions=actions_of(
            row["event_type"], row["audience"], resolved=resolution is not None, hidden=row["is_hidden"]
        ),
        hidden=row["is_hidden"],
        is_read=row["is_read"],
        read_by_user_id=row["read_by_user_id"],
        resolution=resolution,
        created_at=row["created_at"],
    )


class Selection(StrEnum):
    """Which notifications a list contains."""

    ALL = "all"
    UNREAD = "unread"
    OPEN = "open"


LISTS = {
    Selection.ALL: store.list_notifications,
    Selection.UNREAD: store.list_unread_notifications,
    Selection.OPEN: store.list_open_notifications,
}


class Inbox:
    def __init__(self, pool: Pool, wakeup_sender: WakeupSender) -> None:
        self._pool = pool
        self._wakeup_sender = wakeup_sender

    async def page(
        self, identity: Identity, selection: Selection, cursor: str | None, limit: int
    ) -> Page[NotificationView]:
        (before,) = decode(cursor, 1) if cursor else (LARGEST_ID,)
        rows = await LISTS[selection](self._pool, identity.user_type, identity.user_id, before, limit + 1)
        page = [view(row) for row in rows[:limit]]
        return Page(items=page, next_cursor=encode(page[-1].id) if len(rows) > limit else None)

    async def count(self, identity: Identity) -> Counts:
        row = await store.count_notifications(self._pool, identity.user_type, identity.user_id)
        return Counts(unread=row["unread"], open=row["open"])

    async def read(self, identity: Identity, notification_id: int) -> NotificationView:
        async def work(connection: Connection) -> NotificationView:
            person = await find_person(connection, identity)
            unread = await store.lock_unread_notifications(connection, *person.key, notification_id)
            await _mark(connection, person, unread)
            row = await store.find_notification(connection, *person.key, notification_id)
            if row is None:
                raise not_found("notification")
            return view(row)

        answer = await in_transaction(self._pool, work)
        self._wakeup_sender.announce(Level.EVENT)
        return answer

    async def read_all(self, identity: Identity) -> ReadAll:
        async def work(connection: Connection) -> int:
            person = await find_person(connection, identity)
            unread = await store.lock_unread_notifications(connection, *person.key, None)
            await _mark(connection, person, unread, everything=True)
            return len(unread)

        count = await in_transaction(self._pool, work)
        self._wakeup_sender.announce(Level.EVENT)
        return ReadAll(read=count)


async def _mark(connection: Connection, person: Person, unread: Sequence[Record], *, everything: bool = False) -> None:
    """Mark locked rows as read and append the events that update the open pages."""
    if not unread:
        return
    # The database's clock, as in every other event: this host's clock may be wrong.
    at = max(row["locked_at"] for row in unread)
    shared = [row["event_notification_id"] for row in unread if row["shared_read"]]
    own = [row["id"] for row in unread if not row["shared_read"]]
    if shared:
        await store.mark_shared_read(connection, shared, person.user_id, at)
    if own:
        await store.mark_read(connection, *person.key, own)
    single = [row for row in unread if row["shared_read"]] if everything else unread
    events = [_read_event(person, at, row) for row in single]
    if everything:
        # One event covers the reader's own inbox; the other staff need one per shared notification.
        data = NotificationData(
            audience=person.audience, actor=person.actor, up_to_id=max(row["id"] for row in unread), at=at
        )
        events.append(notification_event(EventType.NOTIFICATION_READ, person.user_id, data))
    await store.append_events(connection, events)


def _read_event(person: Person, at: datetime, row: store.Row) -> dict[str, Any]:
    data = NotificationData(
        audience=person.audience,
        actor=person.actor,
        event_notification_id=row["event_notification_id"],
        # A shared notification has a different id for each recipient.
        notification_ids=None if row["shared_read"] else [row["id"]],
        shared=row["shared_read"],
        at=at,
    )
    return notification_event(EventType.NOTIFICATION_READ, row["event_notification_id"], data)
