"""Consuming in batches, with the ack after the commit.

A handler gets the messages that have arrived, in queue order, and returns when its effects are committed. Only then is
the batch acked. During an outage the batch stays unacked and is retried, so that the order is kept. Long before the
broker's consumer timeout the batch is returned by closing the channel, and it is delivered again.

Poison (isolation.py) goes to the dead queue with its reason, by a confirmed publish before its ack. While the broker
accepts no messages (an alarm) nothing can be buried: poison stays unacked, and all other messages are handled and
acked.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import structlog
from aiormq.abc import AbstractChannel as Underlay
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity
from prometheus_client import Counter

from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe, is_outage
from tablebell.rabbit.connection import Broker, BrokerUnavailable, Declare, cancellation_as_outage, close_channel
from tablebell.rabbit.isolation import Interrupted, Isolation
from tablebell.rabbit.publisher import Confirmed, Publisher
from tablebell.rabbit.received_message import Handler, Poison, ReceivedMessage, dead_letter, from_delivery
from tablebell.rabbit.subscription import End, subscribed
from tablebell.retry import Backoff

log = structlog.get_logger(__name__)

LONGEST_PAUSE = 2.0
BURIAL_RETRY_SECONDS = 1.0

INTERRUPTIONS = Counter("consumer_interruptions_total", "Tries to handle a batch that ended in an outage", ["queue"])


class Recovery(Protocol):
    """Finds the messages that a queue lost because it was deleted and declared again."""

    async def request(self) -> None:
        """Record that the queue is missing or may have been deleted. Called before it is declared again."""

    def missing(self) -> AsyncIterator[Sequence[ReceivedMessage]]:
        """The messages that the queue may have lost, in order. Called before consuming starts."""


@dataclass(slots=True)
class Consumer:
    broker: Broker
    queue: str
    dead_queue: str
    handler: Handler
    declare: Declare
    batch_size: int = 100
    linger_seconds: float = 0.0
    """How long to wait for a batch to fill; 0 takes only what has arrived."""
    hold_seconds: float = 900.0
    """How long a message is held unacked before it is returned: well below the broker's consumer timeout."""
    dead_letters: Broker | None = None
    """The connection that publishes dead letters; by default the consuming one."""
    dead_letter_ttl: timedelta | None = None
    """How long a dead letter waits for an operator before RabbitMQ deletes it."""
    recovery: Recovery | None = None
    consuming: bool = False
    interruption: str | None = None
    """The error of the outage that delays the current batch."""
    isolation: Isolation = field(init=False)
    _cancelled: bool = False

    def __post_init__(self) -> None:
        self.isolation = Isolation(self.queue, self.handler)

    async def check(self) -> None:
        """Raises while the queue is not consumed, or while an outage delays its messages."""
        if not self.consuming:
            raise BrokerUnavailable(f"{self.queue} is not consumed")
        if self.interruption is not None:
            raise Interrupted(f"{self.queue} is held up: {self.interruption}")

    async def run(self, stop: Stop) -> None:
        """Consume until a stop is requested, and open another channel when one is lost."""
        while not stop.requested:
            try:
                with cancellation_as_outage():
                    await self._consume(stop)
            except BrokerUnavailable:
                await stop.sleep(0.1)
            except Exception as error:
                if not is_outage(error):
                    raise
                log.warning("consumer_interrupted", queue=self.queue, error=describe(error))
                await stop.sleep(1.0)

    async def _consume(self, stop: Stop) -> None:
        if self.recovery is not None and (self._cancelled or not await self._queue_exists()):
            log.warning("queue_lost", queue=self.queue)
            await self.recovery.request()
            self._cancelled = False
        channel = await self.broker.open_channel(confirms=False, prefetch=2 * self.batch_size, declare=self.declare)
        underlay = await channel.get_underlay_channel()
        arrived: asyncio.Queue[ReceivedMessage] = asyncio.Queue()

        async def on_message(message: DeliveredMessage) -> None:
            arrived.put_nowait(from_delivery(message))

        stopping = asyncio.ensure_future(stop.wait())
        try:
            if self.recovery is not None and not await self._recover(self.recovery, stopping):
                return
            async with subscribed(channel, self.queue, on_message, no_ack=False) as ended:
                self.consuming, self.interruption = True, None
                await ConsumerSession(self, underlay, arrived, _either(stopping, ended)).run()
                self._cancelled = ended.done() and ended.result() is End.CANCELLED
        finally:
            self.consuming = False
            stopping.cancel()
            await close_channel(channel)

    async def _queue_exists(self) -> bool:
        channel = await self.broker.open_channel(confirms=False)
        try:
            await channel.declare_queue(self.queue, passive=True, timeout=5)
        except ChannelNotFoundEntity:
            return False
        finally:
            await close_channel(channel)
        return True

    async def _recover(self, recovery: Recovery, stopping: asyncio.Future[Any]) -> bool:
        """Handle the messages that the queue may have lost; returns False if a stop came first."""
        async with aclosing(recovery.missing()) as missing:  # type: ignore[type-var]
            async for batch in missing:
                poisoned = await self.handle(batch, stopping, time.monotonic() + self.hold_seconds)
                if poisoned is None:
                    return False
                for message, poison in poisoned:  # nothing to bury: the event is still in the outbox
                    log.error("event_not_recovered", message_id=message.message_id, reason=poison.reason)
        return not stopping.done()

    async def handle(
        self, batch: Sequence[ReceivedMessage], ending: asyncio.Future[Any], until: float
    ) -> list[tuple[ReceivedMessage, Poison]] | None:
        """Returns the poison messages when the others are handled; None if the batch has to be returned."""
        backoff = Backoff(first=0.1, longest=min(LONGEST_PAUSE, self.hold_seconds / 10))
        while not ending.done():
            try:
                async with asyncio.timeout(max(1.0, until - time.monotonic())):
                    poisoned = await self.isolation.handle(batch)
            except OUTAGES as outage:
                pause = backoff.next()
                self.interruption = describe(outage)
                INTERRUPTIONS.labels(self.queue).inc()
                log.warning("batch_interrupted", queue=self.queue, error=self.interruption, retry_in=pause)
                if time.monotonic() + pause > until:
                    log.warning("batch_given_back", queue=self.queue, messages=len(batch))
                    return None
                await asyncio.wait({ending}, timeout=pause)
            else:
                self.interruption = None
                return poisoned
        return None

    async def bury(self, poisoned: Sequence[tuple[ReceivedMessage, Poison]]) -> bool:
        """Publish the messages to the dead queue; returns whether all are confirmed."""
        broker = self.dead_letters or self.broker
        publisher = Publisher(broker, self.declare)
        try:
            outcomes = await publisher.publish_all(
                [
                    dead_letter(message, poison, self.queue, self.dead_queue, self.dead_letter_ttl)
                    for message, poison in poisoned
                ]
            )
        finally:
            await publisher.close()
        refused = [outcome.reason for outcome in outcomes if not isinstance(outcome, Confirmed)]
        if refused:
            log.warning("messages_not_buried", queue=self.queue, messages=len(poisoned), error=refused[0])
            return False
        for message, poison in poisoned:
            log.error("message_buried", queue=self.queue, message_id=message.message_id, reason=poison.reason)
        return True


class ConsumerSession:
    """The work on one channel until it ends."""

    def __init__(
        self,
        consumer: Consumer,
        underlay: Underlay,
        arrived: asyncio.Queue[ReceivedMessage],
        ending: asyncio.Future[Any],
    ) -> None:
        self._consumer = consumer
        self._underlay = underlay
        self._arrived = arrived
        self._ending = ending
        self._unburied: list[tuple[ReceivedMessage, Poison]] = []

    async def run(self) -> None:
        """Returns when the channel has ended, or has to be closed to return unacked messages to the queue."""
        try:
            while not self._ending.done():
                batch = await self._take()
                if not await (self._handle_batch(batch) if batch else self._retry_burial()):
                    return
        finally:
            self._ending.cancel()

    async def _take(self) -> list[ReceivedMessage]:
        """The next batch; empty when the session ends, or when unburied poison is due for a retry."""
        if self._arrived.empty():
            first: asyncio.Future[Any] = asyncio.ensure_future(self._arrived.get())
            timeout = BURIAL_RETRY_SECONDS if self._unburied else None
            await asyncio.wait({first, self._ending}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                first.cancel()
                return []
            batch = [first.result()]
        else:
            batch = [self._arrived.get_nowait()]
        if self._ending.done():
            return []
        size = self._consumer.batch_size
        if self._consumer.linger_seconds and self._arrived.qsize() < size - 1:
            await asyncio.sleep(self._consumer.linger_seconds)
        while len(batch) < size and not self._arrived.empty():
            batch.append(self._arrived.get_nowait())
        return batch

    async def _handle_batch(self, batch: Sequence[ReceivedMessage]) -> bool:
        """Handle and ack the batch; returns False if the unacked messages have to be returned to the queue."""
        poisoned = await self._consumer.handle(batch, self._ending, batch[0].received + self._consumer.hold_seconds)
        if poisoned is None:
            return False
        self._unburied += poisoned
        if not self._unburied or await self._consumer.bury(self._unburied):
            self._unburied.clear()
            await self._underlay.basic_ack(batch[-1].tag, multiple=True)
            return True
        held = {message.tag for message, _ in self._unburied}
        for message in batch:
            if message.tag not in held:
                await self._underlay.basic_ack(message.tag)
        # With a full prefetch of unacked poison nothing more is delivered; the time limit still applies.
        return self._within_hold_time()

    async def _retry_burial(self) -> bool:
        if self._unburied and await self._consumer.bury(self._unburied):
            for message, _ in self._unburied:
                await self._underlay.basic_ack(message.tag)
            self._unburied.clear()
        return self._within_hold_time()

    def _within_hold_time(self) -> bool:
        oldest = min((message.received for message, _ in self._unburied), default=time.monotonic())
        return time.monotonic() - oldest < self._consumer.hold_seconds


def _either(*futures: asyncio.Future[Any]) -> asyncio.Future[None]:
    """A future that is done when one of them is."""
    either: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_: object) -> None:
        if not either.done():
            either.set_result(None)

    for future in futures:
        future.add_done_callback(end)
    return either
