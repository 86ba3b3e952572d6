"""One connection for one purpose, replaced whenever it is lost.

Nothing is restored in the background: when the connection is lost, its channels are dead and every call on them fails
at once. The user of a channel opens another one and decides what to do again. That is easier to reason about than a
connection that pretends never to have been away.

Publishing and consuming use separate connections. A broker with a memory or disk alarm stops reading from a connection
that publishes (`connection.blocked`), acks included; it goes on reading from the others. The broker blocks a connection
when it publishes something, and not before. So a connection for publishing publishes a probe when it is opened and
every second: an alarm is known before there is work to do, and the end of an alarm is known before anybody tries.

A blocked connection counts as no connection. If messages were unconfirmed when it was blocked, it is thrown away with
all bytes that were not written: their senders have failed, and publish them again later.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel
from aiormq.abc import AbstractChannel as Underlay
from pydantic import SecretStr

from tablebell.outage import OUTAGES, describe
from tablebell.rabbit.transport import LinkedConnection
from tablebell.retry import Backoff

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 5.0
CLOSE_SECONDS = 2.0
HEARTBEAT_SECONDS = 20
# No queue has this name: the broker confirms the probe and drops it.
PROBE = "tablebell.probe"
PROBE_SECONDS = 1.0
PROBE_ANSWER_SECONDS = 10.0

Declare = Callable[[AbstractChannel], Awaitable[None]]


class BrokerUnavailable(ConnectionError):
    """There is no connection to RabbitMQ at the moment, or RabbitMQ takes no messages on it."""


@contextlib.contextmanager
def own_cancellation() -> Iterator[None]:
    """Lets through a cancellation of this task, and turns one that comes from aiormq into BrokerUnavailable.

    aiormq cancels its calls on a connection that closes under them. A task that ends by that looks as if somebody had
    cancelled it, and nobody misses it.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise BrokerUnavailable("the connection to RabbitMQ was closed under a call") from None


class Broker:
    def __init__(self, url: SecretStr, service: str, *, for_publishing: bool = False) -> None:
        self._url = url
        self._name = f"{service} (publishing)" if for_publishing else service
        self._for_publishing = for_publishing
        self._connection: LinkedConnection | None = None
        self._is_open = False
        self._connected = asyncio.Event()
        self.blocked: str | None = None
        """Why the broker takes no messages on this connection (an alarm); None while it takes them."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection that the broker has not blocked."""
        return self._connected.is_set()

    async def check(self) -> None:
        """Raises while there is no connection, or while the broker takes no messages on it."""
        if not self.connected:
            raise self._away()

    async def wait_connected(self, seconds: float) -> bool:
        """Whether there is a usable connection, within so many seconds."""
        if not self.connected:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._connected.wait()
        return self.connected

    async def open_channel(
        self, *, confirms: bool, prefetch: int | None = None, declare: Declare | None = None, wait: float = 1.0
    ) -> AbstractChannel:
        """Open a channel and declare what it works on. Raises BrokerUnavailable if no connection comes within `wait`.

        Every answer is waited for with a bound: a broker that stops in the middle of a call may leave it unanswered.
        """
        if self.blocked is not None or not await self.wait_connected(wait):
            raise self._away()
        if self._connection is None or self._connection.is_closed:
            raise BrokerUnavailable("the connection to RabbitMQ was lost just now")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                channel = await self._connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
                if prefetch is not None:
                    await channel.set_qos(prefetch_count=prefetch)
                if declare is not None:
                    await declare(channel)
        except RuntimeError as error:  # what aiormq raises for a connection that closes under the call
            raise BrokerUnavailable("the connection to RabbitMQ was lost just now") from error
        return channel

    async def keep_connected(self) -> None:
        """Connect, wait until the connection is lost, connect again; for ever."""
        backoff = Backoff()
        while True:
            try:
                connection = await self._connect()
                # aio-pika's own `closed()` tells of our closing it, not of the broker's: its callbacks tell of both.
                lost = asyncio.Event()
                connection.close_callbacks.add(partial(_set, lost))
                await self._use(connection, lost)
            except OUTAGES as outage:
                pause = backoff.next()
                log.warning("broker_unreachable", connection=self._name, error=describe(outage), retry_in=pause)
                await asyncio.sleep(pause)
            else:
                backoff.reset()
                log.warning("broker_connection_lost", connection=self._name)

    async def close(self) -> None:
        self._connected.clear()
        if self._connection is not None:
            try:
                with contextlib.suppress(*OUTAGES):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await self._connection.close()
            finally:
                self._connection.link.abort()

    async def _connect(self) -> LinkedConnection:
        with own_cancellation():
            async with asyncio.timeout(CONNECT_SECONDS):
                return await aio_pika.connect(
                    self._url.get_secret_value(),
                    heartbeat=HEARTBEAT_SECONDS,
                    client_properties={"connection_name": self._name},
                    connection_class=LinkedConnection,
                )

    async def _use(self, connection: LinkedConnection, lost: asyncio.Event) -> None:
        """Let others use the connection until it is lost."""
        self._connection = connection
        connection.link.on_blocked = self._on_blocked
        losing = asyncio.ensure_future(lost.wait())
        try:
            with own_cancellation():
                if self._for_publishing:
                    await self._keep_probing(connection, losing)
                else:
                    self._open()
                    await losing
        except OUTAGES:
            connection.link.abort()
            raise
        finally:
            losing.cancel()
            self._is_open, self.blocked = False, None
            self._settle()

    async def _keep_probing(self, connection: LinkedConnection, losing: asyncio.Future[Any]) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                channel = await connection.channel(publisher_confirms=True)
                underlay = await channel.get_underlay_channel()
        except RuntimeError as error:
            raise BrokerUnavailable("the connection to RabbitMQ was lost just now") from error
        connection.link.probing = underlay
        while not losing.done():
            await self._probe(underlay, losing)
            if not losing.done():
                self._open()
                await asyncio.wait({losing}, timeout=PROBE_SECONDS)

    async def _probe(self, underlay: Underlay, losing: asyncio.Future[Any]) -> None:
        """Returns when the broker has taken a message on this connection, or when the connection is lost."""
        confirm: asyncio.Future[Any] = asyncio.ensure_future(underlay.basic_publish(b"", routing_key=PROBE))
        try:
            while not (confirm.done() or losing.done()):
                waits = {confirm, losing}
                await asyncio.wait(waits, timeout=PROBE_ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if self.blocked is None and not (confirm.done() or losing.done()):
                    raise BrokerUnavailable(f"RabbitMQ did not confirm a probe within {PROBE_ANSWER_SECONDS:.0f} s")
            if not losing.done():
                confirm.result()
        finally:
            confirm.cancel()
            await asyncio.gather(confirm, return_exceptions=True)

    def _on_blocked(self, reason: str | None) -> None:
        if reason is None:
            log.info("broker_unblocked", connection=self._name)
        elif self.blocked is None:
            log.warning("broker_blocked", connection=self._name, reason=reason)
        self.blocked = reason
        if reason is not None and self._connection is not None and self._connection.link.has_unconfirmed:
            self._connection.link.abort()
        self._settle()

    def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            log.info("broker_connected", connection=self._name)
        self._settle()

    def _settle(self) -> None:
        if self._is_open and self.blocked is None:
            self._connected.set()
        else:
            self._connected.clear()

    def _away(self) -> BrokerUnavailable:
        if self.blocked is not None:
            return BrokerUnavailable(f"RabbitMQ takes no messages: {self.blocked}")
        return BrokerUnavailable("no connection to RabbitMQ")


def _set(event: asyncio.Event, *_: object) -> None:
    event.set()


async def close_channel(channel: AbstractChannel) -> None:
    """Close it if it is open; a broker that is away has closed it already."""
    if not channel.is_closed:
        with contextlib.suppress(*OUTAGES):
            async with asyncio.timeout(CLOSE_SECONDS):
                await channel.close()


@asynccontextmanager
async def open_broker(url: SecretStr, service: str, *, for_publishing: bool = False) -> AsyncIterator[Broker]:
    """Does not wait for the first connection: a service starts, and says it is not ready, while RabbitMQ is away.

    An unexpected error of the task that keeps the connection cancels the block and is raised from it.
    """
    broker = Broker(url, service, for_publishing=for_publishing)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(broker.keep_connected(), name="broker")
        try:
            yield broker
        finally:
            keeping.cancel()
            await broker.close()
