"""The connection below the channels: it reports `connection.blocked`, and it can be thrown away.

aiormq handles `connection.blocked` and `connection.unblocked` in private methods and tells nobody. A connection of
aiormq can only be closed in order, which first writes everything that still waits. Both are changed here, and nothing
else: `test_broker_alarm.py` fails when another version of aiormq names these things differently.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

import aio_pika
import aiormq
from aio_pika.abc import TimeoutType, UnderlayConnection
from aiormq.connection import TransportFactory
from pamqp.commands import Connection as ConnectionMethods
from yarl import URL

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Link(aiormq.Connection):
    """The AMQP connection. `on_blocked` gets the broker's reason, and None when it takes messages again."""

    def __init__(self, url: URL, **options: Any) -> None:
        super().__init__(url, **options)
        self.on_blocked: Callable[[str | None], None] = lambda _reason: None
        self.probing: object = None
        """The channel whose messages matter to nobody."""
        self._remembering = _Remembering(self._transport_factory)
        self._transport_factory = self._remembering

    @property
    def has_unconfirmed(self) -> bool:
        """Whether something was published on one of its channels that the broker has not confirmed."""
        channels = [channel for channel in self.channels.values() if channel is not self.probing]
        return any(cast("aiormq.Channel", channel).confirmations for channel in channels if channel is not None)

    def abort(self) -> None:
        """Close the socket at once. What is not written yet, here or in the kernel's buffer, is discarded."""
        writer = self._remembering.writer
        if writer is None or writer.transport.is_closing():
            return
        peer = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        writer.transport.abort()

    async def _Connection__handle_connection_blocked(self, frame: ConnectionMethods.Blocked) -> None:  # noqa: N802
        self.on_blocked(str(frame.reason) or "no reason given")

    async def _Connection__handle_connection_unblocked(self, _: ConnectionMethods.Unblocked) -> None:  # noqa: N802
        self.on_blocked(None)


class _Remembering(TransportFactory):
    """Keeps the writer that aiormq hides in a task."""

    def __init__(self, factory: TransportFactory) -> None:
        self._factory = factory
        self.writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, self.writer = await self._factory.create(url, **options)
        return reader, self.writer


class _Underlay(UnderlayConnection):
    @classmethod
    async def make_connection(cls, url: URL, timeout: TimeoutType = None, **options: Any) -> Link:  # noqa: ASYNC109 - aio-pika's signature
        link = Link(url, **options)
        async with asyncio.timeout(timeout):
            await link.connect()
        await link.ready()
        return link


class LinkedConnection(aio_pika.Connection):
    """aio-pika's connection over a Link."""

    link: Link

    async def connect(self, timeout: TimeoutType = None) -> None:  # noqa: ASYNC109 - aio-pika's signature
        self.transport = await _Underlay.connect(self.url, self._on_connection_close, timeout=timeout, **self.kwargs)
        self.link = cast("Link", self.transport.connection)
        await self._on_connected()
