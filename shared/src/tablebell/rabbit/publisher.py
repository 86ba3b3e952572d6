"""Publishing with confirms: many messages on their way at once, each with an outcome that is a value.

Confirmed   the broker has it, in at least one queue
Rejected     this message cannot be delivered as it is (no queue is bound for it): counts as a failed attempt
Unreachable the broker is away, blocked, busy or silent: nobody's fault, no attempt is counted; it may or may not have
            arrived

A sender that gives up on a confirm throws away the connection. Otherwise the bytes that the broker has not read yet
would go out later, after the sender has published the same message again.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aiormq.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic

from tablebell import tracing
from tablebell.outage import OUTAGES, describe
from tablebell.rabbit.buffered_channel import BufferedPublishChannel
from tablebell.rabbit.connection import Broker, Declare, close_channel


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    exchange: str
    routing_key: str
    body: bytes
    properties: Basic.Properties
    mandatory: bool = True  # an unroutable message is an error; False for what only matters if somebody listens


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
    """Keeps one channel. `declare` runs on each new one, so that the exchange exists after a broker was rebuilt.

    At most `window` messages are on their way at once.

    Calls that run at the same time are written in the order in which they were made.
    """

    def __init__(
        self, broker: Broker, declare: Declare, *, confirm_seconds: float | None = 10.0, window: int = 500
    ) -> None:
        """`confirm_seconds` is None where the caller has one timer for many messages, which is cheaper."""
        self._broker = broker
        self._declare = declare
        self._confirm_seconds = confirm_seconds
        self._window = window
        self._outflow: BufferedPublishChannel | None = None
        self._opening = asyncio.Lock()
        self._declare_again = False

    async def publish_all(self, messages: Sequence[OutgoingMessage]) -> list[PublishOutcome]:
        """In windows, so that no more than a window's messages are held here."""
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
            outflow = self._outflow
            if outflow is None or outflow.is_closed or self._declare_again:
                outflow = await self._open()
            confirm = outflow.publish(
                message.exchange, message.routing_key, message.body, properties, mandatory=message.mandatory
            )
            if self._confirm_seconds is None:
                await _confirmed(outflow, confirm)
            else:
                async with asyncio.timeout(self._confirm_seconds):
                    await _confirmed(outflow, confirm)
        except PublishError:
            self._declare_again = True  # somebody may have deleted the queues
            return Rejected(f"unroutable: no queue is bound to {message.exchange!r} for {message.routing_key!r}")
        except DeliveryError as error:
            # A queue that is full or has lost its quorum: it would refuse any message.
            return Unreachable(f"the broker did not take it: {describe(error)}")
        except OUTAGES as outage:
            return Unreachable(describe(outage))
        return CONFIRMED

    async def close(self) -> None:
        if self._outflow is not None:
            await self._outflow.close()

    async def _publish_window(self, messages: Iterable[OutgoingMessage]) -> list[PublishOutcome]:
        return await asyncio.gather(*map(self.publish, messages))

    async def _open(self) -> BufferedPublishChannel:
        async with self._opening:
            if self._outflow is None or self._outflow.is_closed:
                self._outflow = await BufferedPublishChannel.over(
                    await self._broker.open_channel(confirms=True, declare=self._declare), self._window
                )
            elif self._declare_again:
                await close_channel(await self._broker.open_channel(confirms=False, declare=self._declare))
            self._declare_again = False
        return self._outflow


async def _confirmed(outflow: BufferedPublishChannel, confirm: asyncio.Future[object]) -> None:
    try:
        await confirm
    except asyncio.CancelledError:
        if confirm.cancelled():
            outflow.abandon()
        raise
