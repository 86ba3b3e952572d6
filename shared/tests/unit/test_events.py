"""Every event type has an example message, and every example parses."""

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import ValidationError

from tablebell.events import Event, EventType, NotificationData, ReservationData, encode_event, routing_key

EXAMPLES = Path(__file__).parent / "events"


@pytest.mark.parametrize("event_type", list(EventType))
def test_the_example_of_every_event_type_still_parses(event_type: EventType) -> None:
    event = Event.model_validate_json((EXAMPLES / f"{event_type}.json").read_text())
    assert event.event_type is event_type
    kind = ReservationData if event.aggregate_type == "reservation" else NotificationData
    data = kind.model_validate(event.data)
    assert json.loads(data.model_dump_json(by_alias=True, exclude_unset=True)) == event.data


@pytest.mark.parametrize(
    ("event_type", "key"),
    [
        ("RESERVATION_REQUESTED", "reservation.requested"),
        ("RESERVATION_REMINDER_DUE", "reservation.reminder.due"),
        ("RESERVATION_VISIT_ENDED", "reservation.visit.ended"),
    ],
)
def test_the_routing_key_follows_from_the_type(event_type: str, key: str) -> None:
    assert routing_key(event_type) == key


def test_a_listener_parses_what_the_relay_encodes() -> None:
    body = encode_event(
        event_id=UUID(int=7),
        event_type="RESERVATION_REQUESTED",
        aggregate_type="reservation",
        aggregate_id=42,
        aggregate_version=3,
        occurred_at=datetime(2027, 11, 14, 19, 0, 0, 123456, tzinfo=UTC),
        correlation_id="c-1",
        data_json='{"partySize": 4}',
    )
    event = Event.model_validate_json(body)
    assert (event.event_id, event.aggregate_id, event.aggregate_version) == (UUID(int=7), 42, 3)
    assert event.occurred_at == datetime(2027, 11, 14, 19, 0, 0, 123456, tzinfo=UTC)
    assert event.data == {"partySize": 4}
    assert set(json.loads(body)) == {
        "eventId",
        "eventType",
        "aggregateType",
        "aggregateId",
        "aggregateVersion",
        "occurredAt",
        "correlationId",
        "data",
    }


def test_an_unknown_event_type_is_refused() -> None:
    example = json.loads((EXAMPLES / "RESERVATION_REQUESTED.json").read_text())
    with pytest.raises(ValidationError):
        Event.model_validate(example | {"eventType": "SOMETHING_ELSE"})
