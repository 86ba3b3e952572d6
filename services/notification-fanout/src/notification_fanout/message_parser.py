"""Parses a message into an event, or into Poison with the reason. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError

from tablebell.correlation import Correlation
from tablebell.events import Event, EventType, NotificationData, ReservationData
from tablebell.rabbit import Poison, ReceivedMessage

# An escaped NUL, but not an escaped backslash followed by "u0000".
NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")

NOTIFICATION_EVENTS = frozenset(
    {EventType.NOTIFICATION_RESOLVED, EventType.NOTIFICATION_DISMISSED, EventType.NOTIFICATION_READ}
)


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


def parse_message(message: ReceivedMessage) -> Incoming | Poison:
    parsed = _parse_body(message.body)
    if isinstance(parsed, Poison):
        return parsed
    event, data = parsed
    correlation = Correlation.from_headers({**message.headers, "correlation_id": event.correlation_id})
    if isinstance(data, NotificationData):
        return NotificationEvent(event, data, correlation)
    return ReservationEvent(event, data, correlation)


@lru_cache(maxsize=512)  # all four listeners get the same messages
def _parse_body(body: bytes) -> tuple[Event, ReservationData | NotificationData] | Poison:
    if rb"\u0000" in body and NUL.search(body):
        return Poison("the body contains a NUL character, which PostgreSQL cannot store")
    try:
        event = Event.model_validate_json(body)
        if event.event_type in NOTIFICATION_EVENTS:
            return event, NotificationData.model_validate(event.data)
        data = ReservationData.model_validate(event.data)
    except ValidationError as error:
        return Poison(f"not a valid event: {_describe(error)}")
    times = (event.occurred_at, data.slot_time, data.proposed_time, data.previous_slot_time)
    if any(each is not None and each.tzinfo is None for each in times):
        return Poison("a time has no UTC offset")
    if not _is_timezone(data.timezone):
        return Poison(f"data.timezone is unknown: {data.timezone!r}")
    return event, data


def _describe(error: ValidationError) -> str:
    # Without the values: they are personal data, and the reason is visible to operators.
    return "; ".join(f"{_path(problem['loc'])}: {problem['msg']}" for problem in error.errors())[:900]


def _path(location: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in location) or "body"


def _is_timezone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
