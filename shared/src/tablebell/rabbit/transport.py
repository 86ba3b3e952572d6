"""The AMQP connection below the channels: it reports `connection.blocked`, and it can be aborted.

aiormq handles `connection.blocked` and `connection.unblocked` in private methods without a callback, and it closes a
connection only after writing all pending bytes. This module changes both and nothing else. `test_broker_alarm.py` fails
if another version of aiormq renames these private methods.
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


class AmqpConnection(aiormq.Connection):
    """`on_blocked` gets the broker's reason, and None when the broker accepts messages again."""

    def __init__(self, url: URL, **options: Any) -> None:
        super().__init__(url, **options)
        self.on_blocked: Callable[[str | None], None] = lambda _reason: None
        self.probe_channel: object = None
        """Its unconfirmed messages do not count."""
        self._writer_recorder = _WriterRecorder(self._transport_factory)
        self._transport_factory = self._writer_recorder

    @property
    def has_unconfirmed(self) -> bool:
        """Whether the broker has not confirmed a message of one of its channels."""
        channels = [channel for channel in self.channels.values() if channel is not self.probe_channel]
        return any(cast("aiormq.Channel", channel).confirmations for channel in channels if channel is not None)

    def abort(self) -> None:
        """Close the socket at once and discard all unwritten bytes, those in the kernel's buffer included."""
        writer = self._writer_recorder.writer
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


class _WriterRecorder(TransportFactory):
    """Records the writer, which aiormq keeps inside a task."""

    def __init__(self, factory: TransportFactory) -> None:
        self._factory = factory
        self.writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, self.writer = await self._factory.create(url, **options)
        return reader, self.writer


class _Underlay(UnderlayConnection):
    @classmethod
    async def make_connection(cls, url: URL, timeout: TimeoutType = None, **options: Any) -> AmqpConnection:  # noqa: ASYNC109 - aio-pika's signature
        connection = AmqpConnection(url, **options)
        async with asyncio.timeout(timeout):
            await connection.connect()
        await connection.ready()
        return connection


class AbortableConnection(aio_pika.Connection):
    """aio-pika's connection over an AmqpConnection."""

    amqp: AmqpConnection

    async def connect(self, timeout: TimeoutType = None) -> None:  # noqa: ASYNC109 - aio-pika's signature
        self.transport = await _Underlay.connect(self.url, self._on_connection_close, timeout=timeout, **self.kwargs)
        self.amqp = cast("AmqpConnection", self.transport.connection)
        await self._on_connected()
