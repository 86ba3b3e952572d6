"""A message as a listener understands it, or why it never can. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError

from tablebell.correlation import Correlation
from tablebell.events import Event, EventType, NotificationData, ReservationData
from tablebell.rabbit import Poison, ReceivedMessage

# An escaped NUL, and not an escaped backslash before the letters u0000.
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

NOTIFICATION_EVENTS = frozenset({EventType.NOTIFICATION_RESOLVED, EventType.NOTIFICATION_READ})


@dataclass(frozen=True, slots=True)
class ReservationEvent:
    event: Event
    data: ReservationData
    correlation: Correlation


@dataclass(frozen=True, slots=True)
class NotificationEvent:
    event: Event
    data: NotificationData
    correlation: Correlation


Incoming: TypeAlias = ReservationEvent | NotificationEvent


def parse_message(delivery: ReceivedMessage) -> Incoming | Poison:
    read = _read(delivery.body)
    if isinstance(read, Poison):
        return read
    event, data = read
    correlation = Correlation.from_headers({**delivery.headers, "correlation_id": event.correlation_id})
    if isinstance(data, NotificationData):
        return NotificationEvent(event, data, correlation)
    return ReservationEvent(event, data, correlation)


@lru_cache(maxsize=512)  # each of the listeners gets the same messages
def _read(body: bytes) -> tuple[Event, ReservationData | NotificationData] | Poison:
    if rb"\u0000" in body and NUL.search(body):
        return Poison("it holds a NUL character, which PostgreSQL stores in no text")
    try:
        event = Event.model_validate_json(body)
        if event.event_type in NOTIFICATION_EVENTS:
            return event, NotificationData.model_validate(event.data)
        data = ReservationData.model_validate(event.data)
    except ValidationError as error:
        return Poison(f"it is not an event that this version knows: {_complaints(error)}")
    moments = (event.occurred_at, data.slot_time, data.proposed_time, data.previous_slot_time)
    if any(moment is not None and moment.tzinfo is None for moment in moments):
        return Poison("it has a time without an offset: which moment is meant is anybody's guess")
    if not _is_timezone(data.timezone):
        return Poison(f"data.timezone is not one: {data.timezone!r}")
    return event, data


def _complaints(error: ValidationError) -> str:
    # The values stay out: they are somebody's data, and the message is there to be looked at.
    return "; ".join(f"{_path(problem['loc'])}: {problem['msg']}" for problem in error.errors())[:900]


def _path(location: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in location) or "body"


def _is_timezone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
