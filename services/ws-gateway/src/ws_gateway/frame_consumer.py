"""Consumes frames from RabbitMQ: one exclusive queue of bounded length per process, with one binding.

Nothing is acknowledged because a frame is never redelivered: a browser that missed one reads the inbox. RabbitMQ
deletes the queue with the connection, and an operator may delete it. After either, frames may be missing, so every
client gets a status frame.

The gateway may not declare the exchange. If it does not exist yet, the binding fails and is tried again.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog
from aiormq.abc import DeliveredMessage

from tablebell.outage import OUTAGES, describe
from tablebell.rabbit import Broker, BrokerUnavailable
from tablebell.rabbit.connection import ANSWER_SECONDS, cancellation_as_outage, close_channel
from tablebell.rabbit.subscription import subscribed
from tablebell.topology import LIVE_EXCHANGE
from tablebell.tracing import SpanKind, spanned

log = structlog.get_logger(__name__)


class SetLive(Protocol):
    def __call__(self, *, live: bool) -> None: ...


class FrameConsumer:
    def __init__(self, broker: Broker, route: Callable[[bytes], None], set_live: SetLive, queue_length: int) -> None:
        self._broker = broker
        self._route = route
        self._set_live = set_live
        self._queue_length = queue_length
        self._live = False

    async def check(self) -> None:
        """Raise while no frames are consumed."""
        if not self._live:
            raise BrokerUnavailable("no frames from RabbitMQ")

    async def run(self) -> None:
        """Consume forever. Open a new channel when one is lost."""
        while True:
            try:
                with cancellation_as_outage():
                    await self._consume()
            except BrokerUnavailable:
                await asyncio.sleep(0.1)
            except OUTAGES as outage:
                log.warning("feed_interrupted", error=describe(outage))
                await asyncio.sleep(0.5)

    async def _consume(self) -> None:
        async def on_message(message: DeliveredMessage) -> None:
            with spanned("deliver frames", message.header.properties.headers or {}, SpanKind.CONSUMER):
                self._route(message.body)

        channel = await self._broker.open_channel(confirms=False)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                queue = await channel.declare_queue(
                    exclusive=True,
                    auto_delete=True,
                    arguments={"x-max-length": self._queue_length, "x-overflow": "drop-head"},
                )
                await queue.bind(LIVE_EXCHANGE)
            async with subscribed(channel, queue.name, on_message, no_ack=True) as ended:
                self._tell(live=True)
                await ended
        finally:
            self._tell(live=False)
            await close_channel(channel)

    def _tell(self, *, live: bool) -> None:
        if live != self._live:
            self._live = live
            log.info("feed_live" if live else "feed_lost")
            self._set_live(live=live)
