"""A channel with confirms and buffered writes: messages published in one iteration of the event loop share one write.

aiormq's own publish takes a lock, an iteration of the event loop and a system call per message, which was most of the
cost of publishing. aiormq still matches the confirms: its channel gets the same entries as from its own publish.

This uses parts of aiormq's channel that its documentation does not promise. If a version of aiormq lacks one of them,
`wrap_for_publishing` returns a channel that uses the library's own publish, and logs it.

At most `window` messages are written and unconfirmed; the others wait in the buffer. That bounds the memory behind the
socket, and the number of messages that a broker may still accept after their publishers have given up.
"""

import asyncio
from functools import lru_cache, partial
from importlib.metadata import version
from typing import Any, Protocol, cast
from uuid import uuid4

import aiormq
import pamqp.frame
import structlog
from aio_pika.abc import AbstractChannel
from aiormq.abc import ChannelFrame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from tablebell.rabbit.connection import BrokerUnavailable, close_channel
from tablebell.rabbit.transport import AmqpConnection

log = structlog.get_logger(__name__)

UNDOCUMENTED_ATTRIBUTES: dict[str, type] = {
    "number": int,
    "delivery_tag": int,
    "max_content_size": int,
    "confirmations": dict,
    "message_id_delivery_tag": dict,
    "write_queue": asyncio.Queue,
}


class PublishChannel(Protocol):
    @property
    def is_closed(self) -> bool: ...

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: Basic.Properties, *, mandatory: bool
    ) -> asyncio.Future[object]: ...

    def abort(self) -> None: ...

    async def close(self) -> None: ...


async def wrap_for_publishing(channel: AbstractChannel, window: int) -> PublishChannel:
    underlay = cast("aiormq.Channel", await channel.get_underlay_channel())
    missing = missing_attributes(underlay)
    if missing:
        log.warning("unbuffered_publishing", aiormq=version("aiormq"), missing=missing)
        return UnbufferedPublishChannel(channel, underlay)
    return BufferedPublishChannel(channel, underlay, window)


def missing_attributes(underlay: object) -> list[str]:
    """The attributes that the buffered channel needs and this version of aiormq does not have."""
    return [
        name for name, kind in UNDOCUMENTED_ATTRIBUTES.items() if not isinstance(getattr(underlay, name, None), kind)
    ]


class UnbufferedPublishChannel:
    """aiormq's own publish: one write per message. Its callers bound the number of messages in flight."""

    def __init__(self, channel: AbstractChannel, underlay: aiormq.Channel) -> None:
        self._channel = channel
        self._underlay = underlay

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed or self._underlay.is_closed

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: Basic.Properties, *, mandatory: bool
    ) -> asyncio.Future[object]:
        if self.is_closed:
            raise BrokerUnavailable("the channel is closed")
        publishing = self._underlay.basic_publish(
            body, exchange=exchange, routing_key=routing_key, properties=properties, mandatory=mandatory
        )
        return cast("asyncio.Future[object]", asyncio.ensure_future(cast("Any", publishing)))

    def abort(self) -> None:
        cast("AmqpConnection", self._underlay.connection).abort()

    async def close(self) -> None:
        await close_channel(self._channel)


class BufferedPublishChannel:
    """It needs the channel for itself: no other code may publish on it."""

    def __init__(self, channel: AbstractChannel, underlay: aiormq.Channel, window: int) -> None:
        self._channel = channel
        self._underlay = underlay
        self._window = window
        self._waiting: list[bytes] = []
        """One element per message."""
        self._written_tag = 0
        self._unconfirmed = 0
        """Written messages without a confirm."""
        self._room = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        underlay.closing.add_done_callback(self._on_closing)

    @property
    def is_closed(self) -> bool:
        return self._channel.is_closed or self._underlay.is_closed

    def publish(
        self, exchange: str, routing_key: str, body: bytes, properties: Basic.Properties, *, mandatory: bool
    ) -> asyncio.Future[object]:
        """Returns the future of the confirm. It raises what aiormq's future raises, or BrokerUnavailable."""
        underlay = self._underlay
        if self.is_closed:
            raise BrokerUnavailable("the channel is closed")
        if mandatory and not properties.message_id:
            properties.message_id = uuid4().hex  # aiormq matches a returned message by its id
        header = ContentHeader(body_size=len(body), properties=properties)
        frames = [
            _marshal_method(underlay.number, exchange, routing_key, mandatory),
            pamqp.frame.marshal(header, underlay.number),
        ]
        for start in range(0, len(body), underlay.max_content_size):
            chunk = ContentBody(body[start : start + underlay.max_content_size])
            frames.append(pamqp.frame.marshal(chunk, underlay.number))
        self._waiting.append(b"".join(frames))

        underlay.delivery_tag += 1
        confirm: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        underlay.confirmations[underlay.delivery_tag] = confirm
        message_id = str(properties.message_id) if mandatory else None
        if message_id is not None:
            underlay.message_id_delivery_tag[message_id] = underlay.delivery_tag
        confirm.add_done_callback(partial(self._on_confirm, underlay.delivery_tag, message_id))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="buffered-publish")
        return confirm

    def abort(self) -> None:
        """Abort the connection, so that unwritten messages are never sent."""
        if self._writing is not None:
            self._writing.cancel()
        cast("AmqpConnection", self._underlay.connection).abort()

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
        await close_channel(self._channel)

    async def _write(self) -> None:
        try:
            while self._waiting:
                room = self._window - self._unconfirmed
                if room <= 0:
                    self._room.clear()
                    await self._room.wait()
                    continue
                payload, count = b"".join(self._waiting[:room]), min(room, len(self._waiting))
                del self._waiting[:room]
                self._written_tag += count
                self._unconfirmed += count
                await self._underlay.write_queue.put(ChannelFrame(payload, should_close=False))
        finally:
            self._writing = None

    def _on_confirm(self, tag: int, message_id: str | None, _confirm: object) -> None:
        if tag <= self._written_tag:
            self._unconfirmed -= 1
            self._room.set()
        names = self._underlay.message_id_delivery_tag
        if message_id is not None and names.get(message_id) == tag:
            del names[message_id]

    def _on_closing(self, closing: "asyncio.Future[object]") -> None:
        reason = None if closing.cancelled() else closing.exception()
        if self._writing is not None:
            self._writing.cancel()
        for confirm in self._underlay.confirmations.values():
            if not confirm.done():
                lost = BrokerUnavailable("the channel was closed before the confirm")
                lost.__cause__ = reason
                confirm.set_exception(lost)
                confirm.exception()  # mark it as retrieved: its publisher may have given up


@lru_cache(maxsize=64)
def _marshal_method(channel: int, exchange: str, routing_key: str, mandatory: bool) -> bytes:  # noqa: FBT001
    return pamqp.frame.marshal(Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory), channel)
