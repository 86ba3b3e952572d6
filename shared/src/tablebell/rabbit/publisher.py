"""Publishing with confirms: many messages in flight at once, each with an outcome as a value.

Confirmed   the broker has stored it in at least one queue
Rejected    this message is unroutable (no queue is bound for it): counts as a failed attempt
Unreachable the broker is unavailable, blocked, busy or silent: an outage, which counts no attempt; the message may or
            may not have arrived

A publisher that gives up on a confirm aborts the connection. Otherwise the broker could read the message later, after
it was published again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aiormq.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic

from tablebell import tracing
from tablebell.outage import OUTAGES, describe
from tablebell.rabbit.buffered_channel import PublishChannel, wrap_for_publishing
from tablebell.rabbit.connection import Broker, Declare, close_channel


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    exchange: str
    routing_key: str
    body: bytes
    properties: Basic.Properties
    mandatory: bool = True  # False: the message may be dropped if no queue is bound


@dataclass(frozen=True, slots=True)
class Confirmed:
    pass


@dataclass(frozen=True, slots=True)
class Rejected:
    reason: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    reason: str


PublishOutcome: TypeAlias = Confirmed | Rejected | Unreachable
CONFIRMED = Confirmed()


class Publisher:
    """Keeps one channel. `declare` runs on each new channel, so that the exchange exists on a rebuilt broker too.

    At most `window` messages are in flight. Concurrent calls are written in call order.
    """

    def __init__(
        self, broker: Broker, declare: Declare, *, confirm_seconds: float | None = 10.0, window: int = 500
    ) -> None:
        """`confirm_seconds` is None if the caller has one timer for many messages, which is cheaper."""
        self._broker = broker
        self._declare = declare
        self._confirm_seconds = confirm_seconds
        self._window = window
        self._channel: PublishChannel | None = None
        self._opening = asyncio.Lock()
        self._declare_again = False

    async def publish_all(self, messages: Sequence[OutgoingMessage]) -> list[PublishOutcome]:
        """Publish window by window, so that no more than one window is buffered."""
        outcomes: list[PublishOutcome] = []
        for start in range(0, len(messages), self._window):
            outcomes += await self._publish_window(messages[start : start + self._window])
        return outcomes

    async def publish(self, message: OutgoingMessage) -> PublishOutcome:
        with tracing.publishing(message.exchange, message.properties) as properties:
            outcome = await self._publish(message, properties)
            tracing.annotate(failed=outcome is not CONFIRMED)
        return outcome

    async def _publish(self, message: OutgoingMessage, properties: Basic.Properties) -> PublishOutcome:
        if self._broker.blocked is not None:
            return Unreachable(f"RabbitMQ takes no messages: {self._broker.blocked}")
        try:
            channel = self._channel
            if channel is None or channel.is_closed or self._declare_again:
                channel = await self._open()
            confirm = channel.publish(
                message.exchange, message.routing_key, message.body, properties, mandatory=message.mandatory
            )
            if self._confirm_seconds is None:
                await _confirmed(channel, confirm)
            else:
                async with asyncio.timeout(self._confirm_seconds):
                    await _confirmed(channel, confirm)
        except PublishError:
            self._declare_again = True  # the queues may have been deleted
            return Rejected(f"unroutable: no queue is bound to {message.exchange!r} for {message.routing_key!r}")
        except DeliveryError as error:
            # The queue is full or has lost its quorum: it refuses every message.
            return Unreachable(f"the broker did not take it: {describe(error)}")
        except OUTAGES as outage:
            return Unreachable(describe(outage))
        return CONFIRMED

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def _publish_window(self, messages: Iterable[OutgoingMessage]) -> list[PublishOutcome]:
        return await asyncio.gather(*map(self.publish, messages))

    async def _open(self) -> PublishChannel:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                self._channel = await wrap_for_publishing(
                    await self._broker.open_channel(confirms=True, declare=self._declare), self._window
                )
            elif self._declare_again:
                await close_channel(await self._broker.open_channel(confirms=False, declare=self._declare))
            self._declare_again = False
        return self._channel


async def _confirmed(channel: PublishChannel, confirm: asyncio.Future[object]) -> None:
    try:
        await confirm
    except asyncio.CancelledError:
        if confirm.cancelled():
            channel.abort()
        raise
