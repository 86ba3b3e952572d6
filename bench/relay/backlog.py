"""The events to publish, as rows and as encoded messages."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson

from tablebell.postgres import Pool

EVENTS = 10_000
AGGREGATES = 1_000
EVENTS_PER_RESERVATION = 5
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DATA = {
    "reservationId": 1,
    "customerId": 5,
    "customerName": "Anna Bianchi",
    "restaurantId": 10,
    "restaurantName": "Da Vittorio",
    "partySize": 4,
    "slotTime": "2026-11-20T19:30:00Z",
    "timezone": "Europe/Rome",
    "status": "NOT_ACCEPTED",
    "note": "By the window, if that is possible; one of us comes with a pushchair.",
}

APPEND = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, headers)
SELECT 'RESERVATION_REQUESTED', $6 + aggregate, $1 + version, $2,
       jsonb_build_object('correlation_id', md5(aggregate::text || version), 'traceparent', $3::text)
  FROM generate_series(1, $4::integer / $5::integer) AS version, generate_series(1, $5) AS aggregate
 ORDER BY version, aggregate
"""


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    body: bytes
    properties: dict[str, Any]
    """Keyword arguments of `aio_pika.Message`."""


async def append(pool: Pool) -> None:
    """In one transaction: all events become visible at once."""
    highest = await pool.fetchval("SELECT coalesce(max(aggregate_version), 0) FROM event_outbox")
    await pool.execute(APPEND, highest, DATA, TRACEPARENT, EVENTS, AGGREGATES, 0)


async def append_new_reservations(pool: Pool, first_id: int) -> None:
    """The events of new reservations, five each. Their aggregate ids follow `first_id`."""
    await pool.execute(APPEND, 0, DATA, TRACEPARENT, EVENTS, EVENTS // EVENTS_PER_RESERVATION, first_id)


def messages() -> list[EncodedMessage]:
    """The same bytes and properties as the relay's, encoded before the measurement."""
    return [_encode(number) for number in range(EVENTS)]


def _encode(number: int) -> EncodedMessage:
    event_id, now = str(uuid4()), datetime.now(UTC)
    correlation_id = event_id.replace("-", "")
    aggregate_id, version = number % AGGREGATES + 1, number // AGGREGATES + 1
    body = {
        "eventId": event_id,
        "eventType": "RESERVATION_REQUESTED",
        "aggregateType": "reservation",
        "aggregateId": aggregate_id,
        "aggregateVersion": version,
        "occurredAt": now,
        "correlationId": correlation_id,
        "data": DATA,
    }
    properties = {
        "message_id": event_id,
        "type": "RESERVATION_REQUESTED",
        "correlation_id": correlation_id,
        "timestamp": now,
        "content_type": "application/json",
        "delivery_mode": 2,
        "headers": {
            "aggregate_type": "reservation",
            "aggregate_id": aggregate_id,
            "aggregate_version": version,
            "traceparent": TRACEPARENT,
        },
    }
    return EncodedMessage(orjson.dumps(body), properties)
