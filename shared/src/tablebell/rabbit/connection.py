"""One connection for one purpose, replaced when it is lost.

Channels are not restored in the background: when the connection is lost, every call on its channels fails at once. The
user of a channel opens another one and decides what to repeat.

Publishing and consuming use separate connections. A broker with a memory or disk alarm stops reading from a connection
that publishes (`connection.blocked`), acks included, and continues to read from the others. It blocks a connection only
when that connection publishes. So a connection for publishing sends a probe when it is opened and every second: the
start and the end of an alarm are known before there is work to do.

A blocked connection counts as no connection. If messages were unconfirmed when it was blocked, it is aborted with all
unwritten bytes: their publishers have failed and publish them again later.
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
from tablebell.rabbit.transport import AbortableConnection
from tablebell.retry import Backoff
from tablebell.topology import PROBE_EXCHANGE

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 5.0
CLOSE_SECONDS = 2.0
HEARTBEAT_SECONDS = 20
# The broker confirms and drops a probe. The default exchange would do too, but a user who may write to it can write to
# every queue.
PROBE_KEY = "tablebell.probe"
PROBE_SECONDS = 1.0
PROBE_ANSWER_SECONDS = 10.0

Declare = Callable[[AbstractChannel], Awaitable[None]]


class BrokerUnavailable(ConnectionError):
    """There is no connection to RabbitMQ, or RabbitMQ accepts no messages on it."""


@contextlib.contextmanager
def cancellation_as_outage() -> Iterator[None]:
    """Turn a cancellation by aiormq into BrokerUnavailable; a cancellation of this task passes.

    aiormq cancels the pending calls of a connection that closes. A task that ended by that would look cancelled on
    purpose, and its end would go unnoticed.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise BrokerUnavailable("the connection to RabbitMQ was closed during a call") from None


class Broker:
    def __init__(self, url: SecretStr, service: str, *, for_publishing: bool = False) -> None:
        self._url = url
        self._name = f"{service} (publishing)" if for_publishing else service
        self._for_publishing = for_publishing
        self._connection: AbortableConnection | None = None
        self._is_open = False
        self._connected = asyncio.Event()
        self.blocked: str | None = None
        """Why the broker accepts no messages on this connection (an alarm); None while it accepts them."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection that the broker has not blocked."""
        return self._connected.is_set()

    async def check(self) -> None:
        """Raises while there is no connection, or while the broker accepts no messages on it."""
        if not self.connected:
            raise self._unavailable()

    async def wait_connected(self, seconds: float) -> bool:
        """Wait up to `seconds` for a usable connection; returns whether there is one."""
        if not self.connected:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._connected.wait()
        return self.connected

    async def open_channel(
        self, *, confirms: bool, prefetch: int | None = None, declare: Declare | None = None, wait: float = 1.0
    ) -> AbstractChannel:
        """Open a channel and run `declare` on it. Raises BrokerUnavailable if there is no connection within `wait`.

        The calls have a timeout: a broker that stops during a call may never answer it.
        """
        if self.blocked is not None or not await self.wait_connected(wait):
            raise self._unavailable()
        if self._connection is None or self._connection.is_closed:
            raise BrokerUnavailable("the connection to RabbitMQ was lost just now")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                channel = await self._connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
                if prefetch is not None:
                    await channel.set_qos(prefetch_count=prefetch)
                if declare is not None:
                    await declare(channel)
        except RuntimeError as error:  # aiormq raises it for a connection that closes during the call
            raise BrokerUnavailable("the connection to RabbitMQ was lost just now") from error
        return channel

    async def keep_connected(self) -> None:
        """Connect, wait until the connection is lost, and connect again, until cancelled."""
        backoff = Backoff()
        while True:
            try:
                connection = await self._connect()
                # aio-pika's `closed()` reports only our own close; the close callbacks report the broker's too.
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
                self._connection.amqp.abort()

    async def _connect(self) -> AbortableConnection:
        with cancellation_as_outage():
            async with asyncio.timeout(CONNECT_SECONDS):
                return await aio_pika.connect(
                    self._url.get_secret_value(),
                    heartbeat=HEARTBEAT_SECONDS,
                    client_properties={"connection_name": self._name},
                    connection_class=AbortableConnection,
                )

    async def _use(self, connection: AbortableConnection, lost: asyncio.Event) -> None:
        """Offer the connection to its users until it is lost."""
        self._connection = connection
        connection.amqp.on_blocked = self._on_blocked
        lost_waiter = asyncio.ensure_future(lost.wait())
        try:
            with cancellation_as_outage():
                if self._for_publishing:
                    await self._keep_probing(connection, lost_waiter)
                else:
                    self._open()
                    await lost_waiter
        except OUTAGES:
            connection.amqp.abort()
            raise
        finally:
            lost_waiter.cancel()
            self._is_open, self.blocked = False, None
            self._update_connected()

    async def _keep_probing(self, connection: AbortableConnection, lost_waiter: asyncio.Future[Any]) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                channel = await connection.channel(publisher_confirms=True)
                underlay = await channel.get_underlay_channel()
        except RuntimeError as error:
            raise BrokerUnavailable("the connection to RabbitMQ was lost just now") from error
        connection.amqp.probe_channel = underlay
        while not lost_waiter.done():
            await self._probe(underlay, lost_waiter)
            if not lost_waiter.done():
                self._open()
                await asyncio.wait({lost_waiter}, timeout=PROBE_SECONDS)

    async def _probe(self, underlay: Underlay, lost_waiter: asyncio.Future[Any]) -> None:
        """Returns when the broker has confirmed a message on this connection, or when the connection is lost."""
        confirm: asyncio.Future[Any] = asyncio.ensure_future(
            underlay.basic_publish(b"", exchange=PROBE_EXCHANGE, routing_key=PROBE_KEY)
        )
        try:
            while not (confirm.done() or lost_waiter.done()):
                waits = {confirm, lost_waiter}
                await asyncio.wait(waits, timeout=PROBE_ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if self.blocked is None and not (confirm.done() or lost_waiter.done()):
                    raise BrokerUnavailable(f"RabbitMQ did not confirm a probe within {PROBE_ANSWER_SECONDS:.0f} s")
            if not lost_waiter.done():
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
        if reason is not None and self._connection is not None and self._connection.amqp.has_unconfirmed:
            self._connection.amqp.abort()
        self._update_connected()

    def _open(self) -> None:
        if not self._is_open:
            self._is_open = True
            log.info("broker_connected", connection=self._name)
        self._update_connected()

    def _update_connected(self) -> None:
        if self._is_open and self.blocked is None:
            self._connected.set()
        else:
            self._connected.clear()

    def _unavailable(self) -> BrokerUnavailable:
        if self.blocked is not None:
            return BrokerUnavailable(f"RabbitMQ takes no messages: {self.blocked}")
        return BrokerUnavailable("no connection to RabbitMQ")


def _set(event: asyncio.Event, *_: object) -> None:
    event.set()


async def close_channel(channel: AbstractChannel) -> None:
    """Close the channel if it is open, and ignore an outage."""
    if not channel.is_closed:
        with contextlib.suppress(*OUTAGES):
            async with asyncio.timeout(CLOSE_SECONDS):
                await channel.close()


@asynccontextmanager
async def open_broker(url: SecretStr, service: str, *, for_publishing: bool = False) -> AsyncIterator[Broker]:
    """Keep a connection in a background task, without waiting for the first one.

    A service starts while RabbitMQ is unavailable, and reports that it is not ready.

    An unexpected error of the background task cancels the block and is raised from it.
    """
    broker = Broker(url, service, for_publishing=for_publishing)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(broker.keep_connected(), name="broker")
        try:
            yield broker
        finally:
            keeping.cancel()
            await broker.close()
