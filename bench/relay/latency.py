"""Latency from commit to consumer at a steady rate, compared with a direct publish from this process."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

import aio_pika
from aio_pika.abc import AbstractIncomingMessage
from pydantic import SecretStr

from bench.harness import Figure, Harness
from bench.relay.backlog import DATA, TRACEPARENT
from bench.relay.process import relays
from tablebell.outbox import Level
from tablebell.postgres import Pool
from tablebell.testing import Database, append_rows, eventually
from tablebell.topology import EVENT_EXCHANGE
from tablebell.wakeups import open_wakeup_sender

RATE = 100
SECONDS = 10


async def measure_latency(harness: Harness, database: Database, amqp_url: SecretStr, pool: Pool) -> list[Figure]:
    async with (
        await aio_pika.connect(amqp_url.get_secret_value()) as connection,
        open_wakeup_sender(pool) as wakeup_sender,
        relays(1, database, amqp_url, pool),
    ):
        channel = await connection.channel()
        exchange = await channel.get_exchange(EVENT_EXCHANGE)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "reservation.#")
        sent: dict[int, float] = {}
        seconds: dict[int, float] = {}

        async def on_message(message: AbstractIncomingMessage) -> None:
            number = int(str(message.headers["aggregate_id"]))
            seconds[number] = time.perf_counter() - sent[number]

        await queue.consume(on_message, no_ack=True)

        async def append_event(number: int) -> None:
            row = {
                "event_type": "RESERVATION_REQUESTED",
                "aggregate_id": number,
                "aggregate_version": 1_000_000,
                "payload": DATA,
                "headers": {"correlation_id": f"bench-{number}", "traceparent": TRACEPARENT},
            }
            await append_rows(pool, Level.EVENT, [row])
            sent[number] = time.perf_counter()
            wakeup_sender.announce(Level.EVENT)

        async def publish_directly(number: int) -> None:
            sent[number] = time.perf_counter()
            message = aio_pika.Message(b"{}", delivery_mode=2, headers={"aggregate_id": number})
            await exchange.publish(message, "reservation.requested")

        bare = await _measure(publish_directly, range(-1, -1 - RATE * SECONDS, -1), seconds)
        ours = await _measure(append_event, range(1, 1 + RATE * SECONDS), seconds)
    harness.say(f"from the commit to the consumer: p50 {ours[0]:.1f} ms, p99 {ours[1]:.1f} ms")
    return [
        Figure("commit to consumer, p50", ours[0], "ms", bare[0], "≤ 6 ms", ours[0] <= 6, "at 100 events/s"),
        Figure("commit to consumer, p99", ours[1], "ms", bare[1], "≤ 30 ms", ours[1] <= 30, "at 100 events/s"),
    ]


async def _measure(
    send: Callable[[int], Awaitable[None]], numbers: Sequence[int], seconds: dict[int, float]
) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as sending:
        for position, number in enumerate(numbers):
            await asyncio.sleep(max(0.0, began + position / RATE - loop.time()))
            sending.create_task(_send(send, number))
    await eventually(lambda: all(number in seconds for number in numbers), within=10)
    times = sorted(1000 * seconds[number] for number in numbers)
    return statistics.median(times), times[int(0.99 * len(times))]


async def _send(send: Callable[[int], Awaitable[None]], number: int) -> None:
    await send(number)
