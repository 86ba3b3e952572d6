"""A message as it arrived, what a handler says of it, and the dead letter that it becomes if it is poison."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
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
    """This message can never be handled."""

    reason: str


HandlingResult: TypeAlias = Handled | Poison
Handler: TypeAlias = Callable[[Sequence[ReceivedMessage]], Awaitable[Sequence[HandlingResult]]]


def delivery_of(message: DeliveredMessage) -> ReceivedMessage:
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


def dead_letter(delivery: ReceivedMessage, poison: Poison, queue: str, dead_queue: str) -> OutgoingMessage:
    headers = {
        **delivery.headers,
        "x-dead-reason": poison.reason[:1000],
        "x-dead-queue": queue,
        "x-dead-routing-key": delivery.routing_key,
    }
    properties = Basic.Properties(
        message_id=delivery.message_id,
        message_type=delivery.type,
        correlation_id=delivery.correlation_id,
        content_type="application/json",
        delivery_mode=2,
        headers=headers,
    )
    return OutgoingMessage(exchange="", routing_key=dead_queue, body=delivery.body, properties=properties)
