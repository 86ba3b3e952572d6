"""A consumer of `event-stream`, which keeps every message in the order of arrival."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from pydantic import SecretStr

from tablebell.topology import EVENT_EXCHANGE, declare_events

QUEUE = "test.arrivals"


class Stream:
    def __init__(self) -> None:
        self.messages: list[AbstractIncomingMessage] = []

    async def on_message(self, message: AbstractIncomingMessage) -> None:
        self.messages.append(message)

    @property
    def arrivals(self) -> list[tuple[int, int]]:
        """Aggregate and version of each message."""
        headers = [message.headers for message in self.messages]
        return [(int(str(each["aggregate_id"])), int(str(each["aggregate_version"]))) for each in headers]

    def first_arrivals(self) -> dict[int, list[int]]:
        """The versions of each aggregate by their first arrival."""
        versions: dict[int, list[int]] = {}
        for aggregate, version in self.arrivals:
            seen = versions.setdefault(aggregate, [])
            if version not in seen:
                seen.append(version)
        return versions

    def count_duplicates(self) -> int:
        return sum(count - 1 for count in Counter(self.arrivals).values())


async def bind_queue(amqp_url: SecretStr) -> None:
    """Declare the queue that `open_stream` reads. Call it before the first event."""
    async with await aio_pika.connect(amqp_url.get_secret_value()) as connection:
        channel = await connection.channel()
        await declare_events(channel)
        queue = await channel.declare_queue(QUEUE, durable=True)
        await queue.bind(EVENT_EXCHANGE, "reservation.#")


@asynccontextmanager
async def open_stream(amqp_url: SecretStr) -> AsyncIterator[Stream]:
    stream = Stream()
    async with await aio_pika.connect(amqp_url.get_secret_value()) as connection:
        channel = await connection.channel()
        queue = await channel.get_queue(QUEUE)
        await queue.consume(stream.on_message, no_ack=True)
        yield stream
        await asyncio.sleep(0)
