"""Consuming in batches, with the ack last.

A handler gets what has arrived, in the order of the queue, and returns when its effects are committed; only then is the
batch acked. An outage (the handler's database is away) is waited out with the batch in hand, so that nothing is
overtaken. A handler that fails otherwise is given the batch again message by message, and the one that fails alone goes
to the dead queue with its reason, by a confirmed publish before its ack. The rest are done.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import structlog
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from tablebell import tracing
from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe
from tablebell.rabbit.connection import ANSWER_SECONDS, Broker, BrokerAway, Declare, close_channel
from tablebell.rabbit.publisher import Confirmed, Outgoing, Publisher

log = structlog.get_logger(__name__)

LONGEST_PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as it arrived. `received` is on the monotonic clock."""

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
class Done:
    pass


@dataclass(frozen=True, slots=True)
class Poison:
    """This message can never be handled."""

    reason: str


Verdict: TypeAlias = Done | Poison
Handler: TypeAlias = Callable[[Sequence[Delivery]], Awaitable[Sequence[Verdict]]]


@dataclass(slots=True)
class Consumer:
    broker: Broker
    queue: str
    dead_queue: str
    handler: Handler
    declare: Declare
    batch_size: int = 100
    linger_seconds: float = 0.0
    """How long to wait for a batch to fill; 0 takes what is there."""

    async def run(self, stop: Stop) -> None:
        """Consume until a stop is asked for; open another channel whenever one is lost."""
        while not stop.requested:
            try:
                await self._consume(stop)
            except BrokerAway:
                await stop.sleep(0.1)
            except OUTAGES as outage:
                log.warning("consumer_interrupted", queue=self.queue, error=describe(outage))
                await stop.sleep(1.0)

    async def _consume(self, stop: Stop) -> None:
        channel = await self.broker.open_channel(confirms=False, prefetch=2 * self.batch_size, declare=self.declare)
        arrived: asyncio.Queue[Delivery] = asyncio.Queue()

        async def on_message(message: DeliveredMessage) -> None:
            arrived.put_nowait(_delivery(message))

        ending = asyncio.ensure_future(_either(stop.wait(), channel.closed()))
        try:
            underlay = await channel.get_underlay_channel()
            async with asyncio.timeout(ANSWER_SECONDS):
                await underlay.basic_consume(self.queue, on_message)
            while batch := await self._take(arrived, ending):
                if not await self._finish(batch, ending):
                    return
                await underlay.basic_ack(batch[-1].tag, multiple=True)
        finally:
            ending.cancel()
            await close_channel(channel)

    async def _take(self, arrived: asyncio.Queue[Delivery], ending: asyncio.Future[Any]) -> list[Delivery]:
        """The next batch, or nothing when it is time to end."""
        if arrived.empty():
            first: asyncio.Future[Any] = asyncio.ensure_future(arrived.get())
            await asyncio.wait({first, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                first.cancel()
                return []
            batch = [first.result()]
        else:
            batch = [arrived.get_nowait()]
        if ending.done():
            return []
        if self.linger_seconds and arrived.qsize() < self.batch_size - 1:
            await asyncio.sleep(self.linger_seconds)
        while len(batch) < self.batch_size and not arrived.empty():
            batch.append(arrived.get_nowait())
        return batch

    async def _finish(self, batch: Sequence[Delivery], ending: asyncio.Future[Any]) -> bool:
        """Handle the batch for good; False when it has to be left to be delivered again."""
        failures = 0
        while not ending.done():
            try:
                await self._bury(await self._handle(batch))
            except OUTAGES as outage:
                failures += 1
                pause = min(LONGEST_PAUSE, 0.05 * 2**failures)
                log.warning("batch_interrupted", queue=self.queue, error=describe(outage), retry_in=pause)
                await asyncio.wait({ending}, timeout=pause)
            else:
                return True
        return False

    async def _handle(self, batch: Sequence[Delivery]) -> list[tuple[Delivery, Poison]]:
        """What of the batch is poison; the rest has been handled."""
        try:
            with tracing.handling(self.queue, [delivery.headers for delivery in batch]) as headers:
                verdicts = await self.handler(batch if headers is None else _carrying(batch, headers))
        except OUTAGES:
            raise
        except Exception as error:
            log.exception("batch_failed", queue=self.queue, messages=len(batch))
            if len(batch) == 1:
                return [(batch[0], Poison(describe(error)))]
            return [poisoned for delivery in batch for poisoned in await self._handle([delivery])]
        return [
            (delivery, verdict)
            for delivery, verdict in zip(batch, verdicts, strict=True)
            if isinstance(verdict, Poison)
        ]

    async def _bury(self, poisoned: Sequence[tuple[Delivery, Poison]]) -> None:
        if not poisoned:
            return
        publisher = Publisher(self.broker, self.declare)
        try:
            outcomes = await publisher.publish_all([self._dead_letter(*each) for each in poisoned])
        finally:
            await publisher.close()
        for (delivery, poison), outcome in zip(poisoned, outcomes, strict=True):
            if not isinstance(outcome, Confirmed):
                raise BrokerAway(f"the dead queue did not take a message: {outcome.reason}")
            log.error("message_buried", queue=self.queue, message_id=delivery.message_id, reason=poison.reason)

    def _dead_letter(self, delivery: Delivery, poison: Poison) -> Outgoing:
        headers = {
            **delivery.headers,
            "x-dead-reason": poison.reason[:1000],
            "x-dead-queue": self.queue,
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
        return Outgoing(exchange="", routing_key=self.dead_queue, body=delivery.body, properties=properties)


def _carrying(batch: Sequence[Delivery], headers: Sequence[Mapping[str, Any]]) -> list[Delivery]:
    return [replace(delivery, headers=own) for delivery, own in zip(batch, headers, strict=True)]


def _delivery(message: DeliveredMessage) -> Delivery:
    properties = message.header.properties
    return Delivery(
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


async def _either(*awaitables: Awaitable[Any]) -> None:
    futures = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()
