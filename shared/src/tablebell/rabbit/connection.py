"""One connection per process, replaced whenever it is lost.

Nothing is restored behind anybody's back: when the connection goes, its channels are dead and every call on them fails
at once; who works on a channel opens another and decides what to do again. That is easier to reason about than a
connection that pretends never to have been away.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection
from pydantic import SecretStr

from tablebell.outage import OUTAGES, describe

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 5.0
CLOSE_SECONDS = 2.0
LONGEST_PAUSE = 2.0
HEARTBEAT_SECONDS = 20

Declare = Callable[[AbstractChannel], Awaitable[None]]


class BrokerAway(ConnectionError):
    """There is no connection to RabbitMQ at the moment."""


class Broker:
    def __init__(self, url: SecretStr, service: str) -> None:
        self._url = url
        self._service = service
        self._connection: AbstractConnection | None = None
        self._connected = asyncio.Event()

    @property
    def connected(self) -> bool:
        return self._connected.is_set()

    async def check(self) -> None:
        """Raises while there is no connection."""
        if not self.connected:
            raise BrokerAway("no connection to RabbitMQ")

    async def open_channel(
        self, *, confirms: bool, prefetch: int | None = None, declare: Declare | None = None, wait: float = 1.0
    ) -> AbstractChannel:
        """A new channel, with what it works on declared. Raises BrokerAway if there is no connection after a while.

        Every answer is waited for with a bound: a broker that stops in the middle of a call may leave it unanswered.
        """
        try:
            async with asyncio.timeout(wait):
                await self._connected.wait()
        except TimeoutError:
            raise BrokerAway("no connection to RabbitMQ") from None
        if self._connection is None or self._connection.is_closed:
            raise BrokerAway("the connection to RabbitMQ was lost just now")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                channel = await self._connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
                if prefetch is not None:
                    await channel.set_qos(prefetch_count=prefetch)
                if declare is not None:
                    await declare(channel)
        except RuntimeError as error:  # what aiormq raises for a connection that closes under the call
            raise BrokerAway("the connection to RabbitMQ was lost just now") from error
        return channel

    async def keep_connected(self) -> None:
        """Connect, wait until the connection is lost, connect again; for ever."""
        failures = 0
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    self._connection = await aio_pika.connect(
                        self._url.get_secret_value(),
                        heartbeat=HEARTBEAT_SECONDS,
                        client_properties={"connection_name": self._service},
                    )
            except OUTAGES as outage:
                failures += 1
                pause = min(LONGEST_PAUSE, 0.1 * 2**failures)
                log.warning("broker_unreachable", error=describe(outage), retry_in=pause)
                await asyncio.sleep(pause)
                continue
            failures = 0
            # aio-pika's own `closed()` tells of our closing it, not of the broker's: only its callbacks tell of both.
            lost = asyncio.Event()
            self._connection.close_callbacks.add(partial(_set, lost))
            self._connected.set()
            log.info("broker_connected")
            try:
                await lost.wait()
            finally:
                self._connected.clear()
            log.warning("broker_connection_lost")

    async def close(self) -> None:
        self._connected.clear()
        if self._connection is not None:
            with contextlib.suppress(*OUTAGES):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._connection.close()


def _set(event: asyncio.Event, *_: object) -> None:
    event.set()


async def close_channel(channel: AbstractChannel) -> None:
    """Close it if it is open; a broker that is away has closed it already."""
    if not channel.is_closed:
        with contextlib.suppress(*OUTAGES):
            async with asyncio.timeout(CLOSE_SECONDS):
                await channel.close()


@asynccontextmanager
async def open_broker(url: SecretStr, service: str) -> AsyncIterator[Broker]:
    """Does not wait for the first connection: a service starts, and says it is not ready, while RabbitMQ is away."""
    broker = Broker(url, service)
    keeping = asyncio.create_task(broker.keep_connected(), name="broker")
    try:
        yield broker
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await broker.close()
