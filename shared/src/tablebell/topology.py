"""The exchanges and queues, declared by whoever needs them: declaring again what is there changes nothing.

A listener's queue has a single active consumer: whatever the number of replicas, one of them reads it, in order, and
another takes over when that one is gone. Each queue gets every event; who is told of what is decided in one place, by
the listener.
"""

from aio_pika import ExchangeType
from aio_pika.abc import AbstractChannel

from tablebell.people import Audience

EVENT_EXCHANGE = "event-stream"
DEAD_QUEUE = "event-stream.dead"
LIVE_EXCHANGE = "notification.websocket"

EVENT_QUEUES = {audience: f"event-stream.{audience.lower()}" for audience in Audience}
EVENT_BINDINGS = ("reservation.#", "notification.#")


async def declare_events(channel: AbstractChannel) -> None:
    """`event-stream`, its four queues, and where the dead go."""
    await channel.declare_queue(DEAD_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    exchange = await channel.declare_exchange(EVENT_EXCHANGE, ExchangeType.TOPIC, durable=True)
    for name in EVENT_QUEUES.values():
        queue = await channel.declare_queue(
            name,
            durable=True,
            arguments={
                "x-queue-type": "quorum",
                "x-single-active-consumer": True,
                # In effect none: what a killed consumer held counts as delivered, guilty or not, and a broker that
                # gives up on a message says nothing to anyone. What cannot be handled is buried by the consumer.
                "x-delivery-limit": 1_000_000,
            },
        )
        for binding in EVENT_BINDINGS:
            await queue.bind(exchange, binding)


async def declare_live(channel: AbstractChannel) -> None:
    """`notification.websocket`: every gateway gets every frame and knows whose sockets it has."""
    await channel.declare_exchange(LIVE_EXCHANGE, ExchangeType.FANOUT, durable=True)
