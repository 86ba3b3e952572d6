"""Builds the message of an event from its row."""

import asyncpg
from pamqp.commands import Basic

from tablebell.correlation import Correlation
from tablebell.events import encode_row, routing_key
from tablebell.rabbit import OutgoingMessage
from tablebell.topology import EVENT_EXCHANGE

MAX_NAME_BYTES = 255
"""The limit of a short string in AMQP."""
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Below RabbitMQ's `max_message_size`: a larger message would close the channel that all messages share."""


class Unpublishable(ValueError):
    """The row cannot be published as it is."""


def build_message(row: asyncpg.Record) -> OutgoingMessage:
    event_type: str = row["event_type"]
    event_id = row["event_id"]
    headers = row["headers"]
    correlation = Correlation.from_headers(headers if isinstance(headers, dict) else {})
    _check_name("event_type", event_type)
    _check_name("aggregate_type", row["aggregate_type"])
    body = encode_row(row, correlation.correlation_id)
    if len(body) > MAX_BODY_BYTES:
        raise Unpublishable(f"the message would have {len(body)} bytes; the limit is {MAX_BODY_BYTES}")
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
    if not 0 < len(value.encode()) <= MAX_NAME_BYTES:
        raise Unpublishable(f"{column} must be 1 to {MAX_NAME_BYTES} bytes long, not {len(value.encode())}")
