"""Recovers the events that a listener missed while its queue was deleted, by reading them from the event outbox.

RabbitMQ confirms an event when any of the four queues has it, so the relay does not notice a missing queue. A listener
whose queue is missing, or whose consumer the broker cancelled, stores a catch-up request before it declares the queue.
Before it consumes, it handles every event that is PUBLISHED or PROCESSING and that it has not processed. Events that
are in the queue as well are skipped as duplicates. The request is deleted at the end, so a killed listener starts over.
"""

import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import asyncpg
import structlog

from notification_fanout import store
from notification_fanout.metrics import CAUGHT_UP
from tablebell.correlation import Correlation
from tablebell.events import encode_row, routing_key
from tablebell.people import Audience
from tablebell.postgres import Pool
from tablebell.rabbit import ReceivedMessage

log = structlog.get_logger(__name__)

LOOKBACK = timedelta(days=1)
"""Much shorter than the retention of processed_event, which identifies the events already processed."""


class CatchUp:
    def __init__(self, pool: Pool, audience: Audience, batch_size: int) -> None:
        self._pool = pool
        self._listener = audience.listener
        self._batch_size = batch_size

    async def request(self) -> None:
        async with self._pool.acquire() as connection:
            await store.request_catch_up(connection, self._listener)

    async def missing(self) -> AsyncIterator[Sequence[ReceivedMessage]]:
        async with self._pool.acquire() as connection:
            requested_at = await store.find_catch_up(connection, self._listener)
        if requested_at is None:
            return
        count, after_id = 0, 0
        while rows := await self._next(after_id):
            yield [_message(row) for row in rows]
            count, after_id = count + len(rows), rows[-1]["id"]
            CAUGHT_UP.labels(self._listener).inc(len(rows))
        async with self._pool.acquire() as connection:
            await store.finish_catch_up(connection, self._listener, requested_at)
        log.warning("listener_caught_up", listener=self._listener, events=count)

    async def _next(self, after_id: int) -> list[asyncpg.Record]:
        async with self._pool.acquire() as connection:
            return await store.list_unprocessed_events(connection, self._listener, LOOKBACK, after_id, self._batch_size)


def _message(row: asyncpg.Record) -> ReceivedMessage:
    """The message that the relay publishes for this row, as far as a listener uses it."""
    correlation = Correlation.from_headers(row["headers"] if isinstance(row["headers"], dict) else {})
    body = encode_row(row, correlation.correlation_id)
    return ReceivedMessage(
        tag=0,
        body=body,
        routing_key=routing_key(row["event_type"]),
        message_id=str(row["event_id"]),
        type=row["event_type"],
        correlation_id=correlation.correlation_id,
        headers={"traceparent": correlation.traceparent},
        redelivered=False,
        received=time.monotonic(),
    )
