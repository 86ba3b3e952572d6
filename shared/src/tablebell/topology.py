"""The exchanges and queues. A service declares what it may configure (broker_users.py); a repeated declaration changes
nothing.

A listener's queue has a single active consumer: one replica reads it, in order, and another takes over when that one is
gone. Each queue gets every event; the listener decides which of them notify its audience.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tablebell.people import Audience

if TYPE_CHECKING:  # the names are also used by programs that have no connection to RabbitMQ
    from aio_pika.abc import AbstractChannel

EVENT_EXCHANGE = "event-stream"
DEAD_QUEUE = "event-stream.dead"
LIVE_EXCHANGE = "notification.websocket"
LIVE_EXCHANGE_TYPE = "fanout"
# Exists in every vhost, and no queue is bound to it.
PROBE_EXCHANGE = "amq.direct"

EVENT_QUEUES = {audience: f"event-stream.{audience.lower()}" for audience in Audience}
EVENT_BINDINGS = ("reservation.#", "notification.#")


async def declare_events(channel: AbstractChannel) -> None:
    """Declare what the listeners use: the dead queue, `event-stream` and its four queues."""
    await channel.declare_queue(DEAD_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    await declare_stream(channel)


async def declare_stream(channel: AbstractChannel) -> None:
    """Declare `event-stream` and its four queues, so that no event is published before its queues exist."""
    exchange = await channel.declare_exchange(EVENT_EXCHANGE, "topic", durable=True)
    for name in EVENT_QUEUES.values():
        queue = await channel.declare_queue(
            name,
            durable=True,
            arguments={
                "x-queue-type": "quorum",
                "x-single-active-consumer": True,
                # In effect unlimited: every unacked message of a killed consumer counts as a delivery, and the broker
                # drops a message at the limit silently. The consumer itself buries poison messages.
                "x-delivery-limit": 1_000_000,
            },
        )
        for binding in EVENT_BINDINGS:
            await queue.bind(exchange, binding)


async def declare_live(channel: AbstractChannel) -> None:
    """Declare `notification.websocket`: every gateway gets every frame and selects those for its sockets."""
    await channel.declare_exchange(LIVE_EXCHANGE, LIVE_EXCHANGE_TYPE, durable=True)
