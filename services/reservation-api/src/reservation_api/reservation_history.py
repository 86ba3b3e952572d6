"""The history of one reservation: its events, notifications, channel sends with their attempts, and actions."""

from collections import defaultdict
from datetime import datetime
from typing import Any

from reservation_api import store
from reservation_api.problem import not_found
from reservation_api.reservations import ReservationView, view
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel
from tablebell.postgres import Connection, Pool
from tablebell.tokens import Identity


class TracedEvent(CamelModel):
    id: int
    event_id: str
    event_type: str
    version: int
    schedule_key: str | None
    status: str
    retry_count: int
    last_error: str | None
    correlation_id: str | None
    created_at: datetime
    available_at: datetime
    published_at: datetime | None
    discarded_at: datetime | None
    processed: dict[str, datetime]
    """When each listener processed it."""


class TracedAttempt(CamelModel):
    attempt: int
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    detail: str | None
    provider_message_id: str | None


class TracedSend(CamelModel):
    id: int
    channel: str
    recipient: str | None
    is_sent: bool | None
    outcome: str | None
    attempt_count: int
    last_error: str | None
    next_attempt_at: datetime
    not_after: datetime | None
    provider_message_id: str | None
    created_at: datetime
    sent_at: datetime | None
    attempts: list[TracedAttempt]


class TracedNotification(CamelModel):
    id: int
    event_id: str
    event_notification_id: int
    event_type: str
    audience: str
    user_type: str
    user_id: int
    user_name: str | None
    title: str
    shared: bool
    is_read: bool
    read_by_user_id: int | None
    created_at: datetime
    outbox_status: str | None
    """Status of the L1 row; null if the row has been purged."""
    outbox_error: str | None
    expanded_at: datetime | None
    channels: list[TracedSend]


class TracedAction(CamelModel):
    id: int
    action: str
    actor_type: str
    actor_id: int
    actor_name: str | None
    first_to_act: bool
    event_notification_id: int | None
    notification_id: int | None
    reservation_version: int
    resulting_version: int | None
    at: datetime


class Trace(CamelModel):
    reservation: ReservationView
    events: list[TracedEvent]
    notifications: list[TracedNotification]
    actions: list[TracedAction]


class ReservationHistory:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def trace(self, identity: Identity, reservation_id: int) -> Trace:
        """The access is recorded, because a trace shows personal data."""

        async def work(connection: Connection) -> Trace:
            return await _trace(connection, reservation_id)

        trace = await in_transaction(self._pool, work, one_snapshot=True)
        await store.append_admin_read(self._pool, identity.user_id, "trace", reservation_id)
        return trace


async def _trace(connection: Connection, reservation_id: int) -> Trace:
    reservation = await store.trace_reservation(connection, reservation_id)
    if reservation is None:
        raise not_found("reservation")
    events = await store.trace_events(connection, reservation_id)
    notifications = await store.trace_notifications(connection, reservation_id)
    sends = await store.trace_channel_sends(connection, [row["id"] for row in notifications])
    actions = await store.trace_actions(connection, reservation_id)
    by_notification: defaultdict[int, list[TracedSend]] = defaultdict(list)
    for row in sends:
        by_notification[row["notification_id"]].append(_send(row))
    return Trace(
        reservation=view(reservation),
        events=[_event(row) for row in events],
        notifications=[_notification(row, by_notification[row["id"]]) for row in notifications],
        actions=[_action(row) for row in actions],
    )


def _event(row: store.Row) -> TracedEvent:
    return TracedEvent(
        **_columns(row, TracedEvent, "event_id", "version", "correlation_id"),
        event_id=str(row["event_id"]),
        version=row["aggregate_version"],
        correlation_id=row["headers"].get("correlation_id"),
    )


def _send(row: store.Row) -> TracedSend:
    return TracedSend(**_columns(row, TracedSend, "channel"), channel=row["channel_type"])


def _notification(row: store.Row, channels: list[TracedSend]) -> TracedNotification:
    derived = ("event_id", "shared", "outbox_status", "outbox_error", "expanded_at", "channels")
    return TracedNotification(
        **_columns(row, TracedNotification, *derived),
        event_id=str(row["event_id"]),
        shared=row["shared_read"],
        outbox_status=row["status"],
        outbox_error=row["last_error"],
        expanded_at=row["published_at"],
        channels=channels,
    )


def _action(row: store.Row) -> TracedAction:
    return TracedAction(**_columns(row, TracedAction, "action", "at"), action=row["action_type"], at=row["created_at"])


def _columns(row: store.Row, model: type[CamelModel], *derived: str) -> dict[str, Any]:
    """The fields that have the name of their column, that is all but the derived ones."""
    return {name: row[name] for name in model.model_fields if name not in derived}
