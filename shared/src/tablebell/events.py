"""The wire contract of `event-stream`: event types, routing keys, and the body of a message. Pure."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Protocol
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tablebell.people import Audience, UserType


class EventType(StrEnum):
    RESERVATION_REQUESTED = "RESERVATION_REQUESTED"
    RESERVATION_ACCEPTED = "RESERVATION_ACCEPTED"
    RESERVATION_REJECTED = "RESERVATION_REJECTED"
    RESERVATION_POSTPONED = "RESERVATION_POSTPONED"
    RESERVATION_CHANGED = "RESERVATION_CHANGED"
    RESERVATION_CANCELLED = "RESERVATION_CANCELLED"
    RESERVATION_REMINDER_DUE = "RESERVATION_REMINDER_DUE"
    RESERVATION_VISIT_ENDED = "RESERVATION_VISIT_ENDED"
    # What happened at the table. They notify nobody; the screens of the staff show it.
    RESERVATION_ARRIVED = "RESERVATION_ARRIVED"
    RESERVATION_NO_SHOW = "RESERVATION_NO_SHOW"
    RESERVATION_REOPENED = "RESERVATION_REOPENED"
    # A decision that staff can still undo, for their screens. Its own event follows when it is final.
    RESERVATION_DECIDED = "RESERVATION_DECIDED"
    # A decision was undone before it was final. The request is open again; only the staff are notified.
    RESERVATION_DECISION_UNDONE = "RESERVATION_DECISION_UNDONE"
    # Actions on notifications, for the screens of the other readers. They notify nobody.
    NOTIFICATION_RESOLVED = "NOTIFICATION_RESOLVED"
    NOTIFICATION_DISMISSED = "NOTIFICATION_DISMISSED"
    NOTIFICATION_READ = "NOTIFICATION_READ"


def routing_key(event_type: str) -> str:
    """RESERVATION_REMINDER_DUE → reservation.reminder.due"""
    return event_type.lower().replace("_", ".")


class CamelModel(BaseModel):
    """camelCase on the wire. Unknown fields are ignored, because a newer writer may add some."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class Actor(CamelModel):
    """The user who caused the event."""

    user_type: UserType
    user_id: int
    name: str


class ReservationData(CamelModel):
    """`data` of the RESERVATION_ events: the reservation as it was when the event happened."""

    reservation_id: int
    customer_id: int
    customer_name: str
    restaurant_id: int
    restaurant_name: str
    agency_id: int | None = None
    party_size: int
    slot_time: datetime
    timezone: str
    """The restaurant's time zone, in which times are shown."""
    status: str
    note: str | None = None
    proposed_time: datetime | None = None
    previous_slot_time: datetime | None = None
    previous_party_size: int | None = None
    actor: Actor | None = None
    """None for a planned event."""
    action: str | None = None
    """The action_type of a decision on a shared notification."""
    reminder: str | None = None
    """"24h" or "2h"."""
    reason: str | None = None
    """Why the restaurant cancelled. A cancellation by the guest has none."""


class NotificationData(CamelModel):
    """`data` of the NOTIFICATION_ events, which only the listener of `audience` handles."""

    audience: Audience
    actor: Actor
    action: str | None = None
    event_notification_id: int | None = None
    """None if a whole inbox was read."""
    notification_ids: list[int] | None = None
    """The notifications that were read or dismissed; None for all up to `up_to_id`."""
    up_to_id: int | None = None
    shared: bool = False
    at: datetime


class Event(CamelModel):
    """The body of a message, as a listener parses it."""

    event_id: UUID
    event_type: EventType
    aggregate_type: str
    aggregate_id: int
    aggregate_version: Annotated[int, Field(ge=1)]
    occurred_at: datetime
    correlation_id: str
    data: dict[str, Any]


def encode_event(
    *,
    event_id: UUID,
    event_type: str,
    aggregate_type: str,
    aggregate_id: int,
    aggregate_version: int,
    occurred_at: datetime,
    correlation_id: str,
    data_json: str,
) -> bytes:
    """The body of a message, as the relay writes it. `data_json` is inserted unparsed."""
    return orjson.dumps(
        {
            "eventId": str(event_id),  # orjson does not support asyncpg's UUID class
            "eventType": event_type,
            "aggregateType": aggregate_type,
            "aggregateId": aggregate_id,
            "aggregateVersion": aggregate_version,
            "occurredAt": occurred_at,
            "correlationId": correlation_id,
            "data": orjson.Fragment(data_json),
        }
    )


class OutboxRow(Protocol):
    """A row of event_outbox, indexed by column name."""

    def __getitem__(self, column: str, /) -> Any: ...


def encode_row(row: OutboxRow, correlation_id: str) -> bytes:
    """The body of the message for this row, whose `payload` is JSON text."""
    return encode_event(
        event_id=row["event_id"],
        event_type=row["event_type"],
        aggregate_type=row["aggregate_type"],
        aggregate_id=row["aggregate_id"],
        aggregate_version=row["aggregate_version"],
        occurred_at=row["created_at"],
        correlation_id=correlation_id,
        data_json=row["payload"],
    )
