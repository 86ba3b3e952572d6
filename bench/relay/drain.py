"""Throughput with a backlog, compared with bare loops that publish the same messages to the same queues.

The bare loops publish with confirms in windows, as fast as the broker accepts them. They read and mark no rows, and
keep no order.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import aio_pika
import aiormq
from aio_pika.abc import AbstractChannel
from pamqp.commands import Basic
from pydantic import SecretStr

from bench.harness import Figure, Harness
from bench.relay import backlog
from bench.relay.backlog import EVENTS, EncodedMessage
from bench.relay.process import relays
from tablebell.postgres import Pool
from tablebell.testing import Database, eventually
from tablebell.topology import EVENT_EXCHANGE, EVENT_QUEUES, declare_events

ROUNDS = 5
WINDOW = 500
ARRIVALS = "bench.arrivals"

T = TypeVar("T")


class Drain:
    def __init__(self, harness: Harness, database: Database, amqp_url: SecretStr, pool: Pool) -> None:
        self._harness = harness
        self._database = database
        self._amqp_url = amqp_url
        self._pool = pool

    async def measure(self) -> list[Figure]:
        async with self._channel() as channel:
            await declare_events(channel)
            arrivals = await channel.declare_queue(ARRIVALS, durable=True)
            await arrivals.bind(EVENT_EXCHANGE, "reservation.#")
        rates: dict[str, list[float]] = {"aio-pika": [], "one relay": [], "aiormq": [], "two relays": []}
        late: list[int] = []
        for _ in range(ROUNDS):
            rates["aio-pika"].append(await self._bare(self._with_aio_pika))
            rates["one relay"].append(await self._relays(1))
            rates["aiormq"].append(await self._bare(self._with_aiormq))
            rates["two relays"].append(await self._relays(2, late))
            self._harness.say("events/s: " + ", ".join(f"{name} {each[-1]:,.0f}" for name, each in rates.items()))
        one, bare = median_round(rates["one relay"], rates["aio-pika"])
        same, raw = median_round(rates["one relay"], rates["aiormq"])
        two, alone = median_round(rates["two relays"], rates["one relay"])
        return [
            Figure("one relay drains", one, "events/s", bare, "≥ 0.8 of a bare aio-pika loop", one >= 0.8 * bare),
            Figure("one relay drains", same, "events/s", raw, note="reference: a bare loop on aiormq, the layer below"),
            Figure("two relays drain", two, "events/s", alone, "not slower than one", two >= 0.97 * alone),
            Figure("late arrivals with two", sum(late), f"of {ROUNDS * EVENTS:,}", bar="0", ok=sum(late) == 0),
        ]

    async def _relays(self, count: int, late: list[int] | None = None) -> float:
        async with relays(count, self._database, self._amqp_url, self._pool):
            await backlog.append(self._pool)
            began = await self._pool.fetchval("SELECT clock_timestamp() FROM pg_notify('event_outbox', '')")
            await eventually(self._is_done, within=60, every=0.25)  # rarely: `published_at` has the exact end
            ended = await self._pool.fetchval("SELECT max(published_at) FROM event_outbox")
        if late is not None:
            late.append(await self._late_arrivals())
        await self._empty_queues()
        seconds: float = (ended - began).total_seconds()
        return EVENTS / seconds

    async def _is_done(self) -> bool:
        return not await self._pool.fetchval(
            "SELECT EXISTS (SELECT FROM event_outbox WHERE status IN ('PENDING', 'PROCESSING', 'FAILED'))"
        )

    async def _late_arrivals(self) -> int:
        """Counts messages that arrive after a later version of the same aggregate."""
        highest: dict[object, int] = {}
        late = 0
        async with self._channel() as channel:
            await channel.set_qos(prefetch_count=1000)
            queue = await channel.get_queue(ARRIVALS)
            async with queue.iterator(no_ack=True) as incoming:
                for _ in range(EVENTS):
                    message = await anext(incoming)
                    aggregate, version = message.headers["aggregate_id"], int(str(message.headers["aggregate_version"]))
                    late += version < highest.get(aggregate, 0)
                    highest[aggregate] = max(version, highest.get(aggregate, 0))
        return late

    async def _bare(self, loop: Callable[[AbstractChannel, Sequence[EncodedMessage]], Awaitable[float]]) -> float:
        async with self._channel() as channel:
            rate = await loop(channel, backlog.messages())
        await self._empty_queues()
        return rate

    async def _with_aio_pika(self, channel: AbstractChannel, messages: Sequence[EncodedMessage]) -> float:
        exchange = await channel.get_exchange(EVENT_EXCHANGE)
        made = [aio_pika.Message(each.body, **each.properties) for each in messages]
        return await in_windows(made, lambda message: exchange.publish(message, "reservation.requested"))

    async def _with_aiormq(self, channel: AbstractChannel, messages: Sequence[EncodedMessage]) -> float:
        underlay = cast("aiormq.Channel", await channel.get_underlay_channel())
        made = [(each.body, _properties(each)) for each in messages]
        return await in_windows(
            made,
            lambda message: underlay.basic_publish(
                message[0],
                exchange=EVENT_EXCHANGE,
                routing_key="reservation.requested",
                properties=message[1],
                mandatory=True,
                wait=False,
            ),
        )

    async def _empty_queues(self) -> None:
        async with self._channel() as channel:
            for name in (*EVENT_QUEUES.values(), ARRIVALS):
                await (await channel.get_queue(name)).purge()
        await asyncio.sleep(0.5)

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[AbstractChannel]:
        async with await aio_pika.connect(self._amqp_url.get_secret_value()) as connection:
            yield await connection.channel(on_return_raises=True)


def median_round(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The round with the median ratio: other load on the machine affects both sides of a round alike."""
    rounds = sorted(zip(ours, theirs, strict=True), key=lambda rates: rates[0] / rates[1])
    return rounds[len(rounds) // 2]


async def in_windows(messages: Sequence[T], publish: Callable[[T], Awaitable[object]]) -> float:
    began = time.perf_counter()
    for start in range(0, len(messages), WINDOW):
        await asyncio.gather(*map(publish, messages[start : start + WINDOW]))
    return len(messages) / (time.perf_counter() - began)


def _properties(message: EncodedMessage) -> Basic.Properties:
    properties = dict(message.properties)
    return Basic.Properties(message_type=properties.pop("type"), **properties)
