"""A consumer of a queue that knows when it is one no longer.

The broker cancels a consumer whose queue was deleted, whose leader moved, or that held a message for too long. aiormq
closes nothing then: without a look at the cancellation the consumer would wait for ever for a message.
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
    """Why nothing comes any more."""

    CLOSED = auto()
    """The channel or its connection was closed."""
    CANCELLED = auto()
    """By the broker."""


@asynccontextmanager
async def subscribed(
    channel: AbstractChannel, queue: str, on_message: ConsumerCallback, *, no_ack: bool
) -> AsyncIterator[asyncio.Future[End]]:
    """Consume from the queue; the future is done as soon as nothing comes any more."""
    underlay = await channel.get_underlay_channel()
    ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()

    def end(how: End) -> None:
        if not ended.done():
            ended.set_result(how)

    def on_cancel(*_: object) -> None:
        log.warning("consumer_cancelled", queue=queue)
        end(End.CANCELLED)

    def on_closing(closing: asyncio.Future[object]) -> None:
        error = None if closing.cancelled() else closing.exception()
        if isinstance(error, AMQPChannelError) and type(error) is not ChannelClosed:  # that is our own closing it
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
