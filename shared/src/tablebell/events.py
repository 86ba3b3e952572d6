"""The wire contract of `event-stream`: which events there are, their routing keys, and the body of a message. Pure."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import orjson
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class EventType(StrEnum):
    RESERVATION_REQUESTED = "RESERVATION_REQUESTED"
    RESERVATION_ACCEPTED = "RESERVATION_ACCEPTED"
    RESERVATION_REJECTED = "RESERVATION_REJECTED"
    RESERVATION_POSTPONED = "RESERVATION_POSTPONED"
    RESERVATION_CHANGED = "RESERVATION_CHANGED"
    RESERVATION_CANCELLED = "RESERVATION_CANCELLED"
    RESERVATION_REMINDER_DUE = "RESERVATION_REMINDER_DUE"
    RESERVATION_VISIT_ENDED = "RESERVATION_VISIT_ENDED"


def routing_key(event_type: str) -> str:
    """RESERVATION_REMINDER_DUE → reservation.reminder.due"""
    return event_type.lower().replace("_", ".")


class Event(BaseModel):
    """The body of a message, as a listener reads it. Unknown fields are ignored: a newer writer may add some."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)

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
    """The body of a message, as the relay writes it: `data_json` goes in as it stands in the row, unparsed."""
    return orjson.dumps(
        {
            "eventId": event_id,
            "eventType": event_type,
            "aggregateType": aggregate_type,
            "aggregateId": aggregate_id,
            "aggregateVersion": aggregate_version,
            "occurredAt": occurred_at,
            "correlationId": correlation_id,
            "data": orjson.Fragment(data_json),
        }
    )
