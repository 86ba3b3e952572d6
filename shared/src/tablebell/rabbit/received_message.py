"""A received message, the result of its handler, and the dead letter of a poison message."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from tablebell.rabbit.publisher import OutgoingMessage


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """`received` is on the monotonic clock."""

    tag: int
    body: bytes
    routing_key: str
    message_id: str | None
    type: str | None
    correlation_id: str | None
    headers: Mapping[str, Any]
    redelivered: bool
    received: float


@dataclass(frozen=True, slots=True)
class Handled:
    pass


@dataclass(frozen=True, slots=True)
class Poison:
    """The message can never be handled; it goes to the dead queue."""

    reason: str


HandlingResult: TypeAlias = Handled | Poison
Handler: TypeAlias = Callable[[Sequence[ReceivedMessage]], Awaitable[Sequence[HandlingResult]]]


def from_delivery(message: DeliveredMessage) -> ReceivedMessage:
    properties = message.header.properties
    return ReceivedMessage(
        tag=message.delivery_tag or 0,
        body=message.body,
        routing_key=message.routing_key or "",
        message_id=properties.message_id,
        type=properties.message_type,
        correlation_id=properties.correlation_id,
        headers=properties.headers or {},
        redelivered=bool(message.redelivered),
        received=time.monotonic(),
    )


def dead_letter(
    message: ReceivedMessage, poison: Poison, queue: str, dead_queue: str, ttl: timedelta | None = None
) -> OutgoingMessage:
    """`ttl`: RabbitMQ deletes the message after that time."""
    headers = {
        **message.headers,
        "x-dead-reason": poison.reason[:1000],
        "x-dead-queue": queue,
        "x-dead-routing-key": message.routing_key,
    }
    properties = Basic.Properties(
        message_id=message.message_id,
        message_type=message.type,
        correlation_id=message.correlation_id,
        content_type="application/json",
        delivery_mode=2,
        headers=headers,
        expiration=None if ttl is None else str(int(ttl.total_seconds() * 1000)),
    )
    return OutgoingMessage(exchange="", routing_key=dead_queue, body=message.body, properties=properties)
