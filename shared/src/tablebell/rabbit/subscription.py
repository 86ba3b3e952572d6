"""A subscription to a queue that reports its end.

The broker cancels a consumer if its queue is deleted, if the leader moves, or if it holds a message for too long.
aiormq closes nothing then: a consumer that ignores the cancellation waits forever.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto

import structlog
from aio_pika.abc import AbstractChannel
from aiormq.abc import ConsumerCallback
from aiormq.exceptions import AMQPChannelError, ChannelClosed

from tablebell.outage import describe
from tablebell.rabbit.connection import ANSWER_SECONDS

log = structlog.get_logger(__name__)


class End(Enum):
    """Why the subscription ended."""

    CLOSED = auto()
    """The channel or its connection was closed."""
    CANCELLED = auto()
    """The broker cancelled the consumer."""


@asynccontextmanager
async def subscribed(
    channel: AbstractChannel, queue: str, on_message: ConsumerCallback, *, no_ack: bool
) -> AsyncIterator[asyncio.Future[End]]:
    """Consume from the queue. The future is done as soon as the subscription has ended."""
    underlay = await channel.get_underlay_channel()
    ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()

    def end(reason: End) -> None:
        if not ended.done():
            ended.set_result(reason)

    def on_cancel(*_: object) -> None:
        log.warning("consumer_cancelled", queue=queue)
        end(End.CANCELLED)

    def on_closing(closing: asyncio.Future[object]) -> None:
        error = None if closing.cancelled() else closing.exception()
        if isinstance(error, AMQPChannelError) and type(error) is not ChannelClosed:  # ChannelClosed: we closed it
            log.warning("channel_closed_by_broker", queue=queue, error=describe(error))
        end(End.CLOSED)

    underlay.on_consumer_cancel_callbacks.add(on_cancel)
    underlay.closing.add_done_callback(on_closing)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await underlay.basic_consume(queue, on_message, no_ack=no_ack)
        yield ended
    finally:
        underlay.on_consumer_cancel_callbacks.discard(on_cancel)
        end(End.CLOSED)
