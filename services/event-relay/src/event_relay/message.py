"""The message that a row becomes."""

import asyncpg
from pamqp.commands import Basic

from tablebell.correlation import Correlation
from tablebell.events import encode_event, routing_key
from tablebell.rabbit import OutgoingMessage
from tablebell.topology import EVENT_EXCHANGE

LONGEST_NAME = 255
"""A short string of AMQP holds no more bytes."""
LARGEST_BODY = 4 * 1024 * 1024
"""Far beyond any event, and well below what makes RabbitMQ close the channel under everybody else's messages."""


class Unpublishable(ValueError):
    """No broker could take this row as it is."""


def compose(row: asyncpg.Record) -> OutgoingMessage:
    event_type: str = row["event_type"]
    event_id = row["event_id"]
    headers = row["headers"]
    correlation = Correlation.from_headers(headers if isinstance(headers, dict) else {})
    _check_name("event_type", event_type)
    _check_name("aggregate_type", row["aggregate_type"])
    body = encode_event(
        event_id=event_id,
        event_type=event_type,
        aggregate_type=row["aggregate_type"],
        aggregate_id=row["aggregate_id"],
        aggregate_version=row["aggregate_version"],
        occurred_at=row["created_at"],
        correlation_id=correlation.correlation_id,
        data_json=row["payload"],
    )
    if len(body) > LARGEST_BODY:
        raise Unpublishable(f"the message would have {len(body)} bytes; {LARGEST_BODY} is the most")
    properties = Basic.Properties(
        message_id=str(event_id),
        message_type=event_type,
        correlation_id=correlation.correlation_id,
        timestamp=row["created_at"],
        content_type="application/json",
        delivery_mode=2,
        headers={
            "aggregate_type": row["aggregate_type"],
            "aggregate_id": row["aggregate_id"],
            "aggregate_version": row["aggregate_version"],
            "traceparent": correlation.traceparent,
        },
    )
    return OutgoingMessage(EVENT_EXCHANGE, routing_key(event_type), body, properties)


def _check_name(column: str, value: str) -> None:
    if not 0 < len(value.encode()) <= LONGEST_NAME:
        raise Unpublishable(f"{column} has to be 1 to {LONGEST_NAME} bytes long, and has {len(value.encode())}")
