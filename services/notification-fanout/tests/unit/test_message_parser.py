"""Valid messages become events, invalid ones Poison."""

import time
from typing import Any
from uuid import uuid4

import orjson
import pytest

from notification_fanout.message_parser import NotificationEvent, ReservationEvent, parse_message
from tablebell.rabbit import Poison, ReceivedMessage

from .samples import sample


def body(**changes: Any) -> dict[str, Any]:
    return {
        "eventId": str(uuid4()),
        "eventType": "RESERVATION_REQUESTED",
        "aggregateType": "reservation",
        "aggregateId": 1,
        "aggregateVersion": 1,
        "occurredAt": "2026-11-16T12:00:00Z",
        "correlationId": "abc",
        "data": sample("Anna", "Porto", None).model_dump(mode="json", by_alias=True),
    } | changes


def delivered(content: bytes, **headers: Any) -> ReceivedMessage:
    return ReceivedMessage(1, content, "", None, None, None, headers, redelivered=False, received=time.monotonic())


def test_a_reservation_event_is_parsed_with_its_correlation() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    incoming = parse_message(delivered(orjson.dumps(body()), traceparent=trace))
    assert isinstance(incoming, ReservationEvent)
    assert incoming.correlation.as_headers() == {"correlation_id": "abc", "traceparent": trace}


def test_a_notification_event_is_parsed() -> None:
    data = {
        "audience": "CUSTOMER",
        "actor": {"userType": "CUSTOMER", "userId": 5, "name": "A"},
        "at": "2026-11-16T12:00Z",
    }
    incoming = parse_message(delivered(orjson.dumps(body(eventType="NOTIFICATION_READ", data=data))))
    assert isinstance(incoming, NotificationEvent)


def test_a_note_with_the_characters_of_an_escaped_nul_is_parsed() -> None:
    message = body(data=body()["data"] | {"note": r"\u0000"})
    assert isinstance(parse_message(delivered(orjson.dumps(message))), ReservationEvent)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not JSON", "body"),
        (orjson.dumps(body(eventType="RESERVATION_EATEN")), "eventType"),
        (orjson.dumps(body(aggregateVersion=0)), "aggregateVersion"),
        (orjson.dumps(body(data={"reservationId": 1})), "customerId"),
        (orjson.dumps(body(data=body()["data"] | {"note": "a \x00 b"})), "NUL"),
        (orjson.dumps(body(data=body()["data"] | {"timezone": "Mars/Olympus"})), "timezone"),
        (orjson.dumps(body(data=body()["data"] | {"slotTime": "2026-11-20T20:30:00"})), "offset"),
    ],
)
def test_an_invalid_message_is_poison_with_a_reason(content: bytes, reason: str) -> None:
    poison = parse_message(delivered(content))
    assert isinstance(poison, Poison)
    assert reason in poison.reason
