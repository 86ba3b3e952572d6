"""The test harness: publishes events as the relay does, runs the service and reads the results."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import orjson
from aio_pika.abc import AbstractIncomingMessage
from pamqp.commands import Basic
from pydantic import SecretStr

from notification_fanout.__main__ import serve_until
from notification_fanout.settings import Settings
from tablebell.events import EventType, ReservationData, encode_event, routing_key
from tablebell.frames import AddressedFrame, decode_frames
from tablebell.lifecycle import Stop
from tablebell.postgres import Pool, prepare_connection
from tablebell.rabbit import Broker, Confirmed, OutgoingMessage, Publisher, ReceivedMessage
from tablebell.testing import Database, free_port
from tablebell.topology import DEAD_QUEUE, EVENT_EXCHANGE, LIVE_EXCHANGE, declare_events, declare_live

SLOT = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)


def data(reservation_id: int, **changes: Any) -> dict[str, Any]:
    """The event data of a reservation of customer 5 at restaurant 10, as the API writes it."""
    given = {
        "reservation_id": reservation_id,
        "customer_id": 5,
        "customer_name": "Anna Bianchi",
        "restaurant_id": 10,
        "restaurant_name": "Trattoria del Porto",
        "agency_id": 7,
        "party_size": 4,
        "slot_time": SLOT,
        "timezone": "Europe/Rome",
        "status": "NOT_ACCEPTED",
    }
    return ReservationData.model_validate(given | changes).model_dump(mode="json", by_alias=True)


def message(
    event_type: str,
    payload: dict[str, Any],
    *,
    version: int = 1,
    event_id: UUID | None = None,
    aggregate: tuple[str, int] | None = None,
) -> OutgoingMessage:
    """A message as the relay publishes it."""
    event_id = event_id or uuid4()
    aggregate_type, aggregate_id = aggregate or ("reservation", payload["reservationId"])
    body = encode_event(
        event_id=event_id,
        event_type=event_type,
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        aggregate_version=version,
        occurred_at=datetime.now(UTC),
        correlation_id="test",
        data_json=orjson.dumps(payload).decode(),
    )
    return raw(event_type, body, str(event_id))


def raw(event_type: str, body: bytes, message_id: str = "") -> OutgoingMessage:
    properties = Basic.Properties(
        message_id=message_id, message_type=event_type, content_type="application/json", delivery_mode=2
    )
    return OutgoingMessage(EVENT_EXCHANGE, routing_key(event_type), body, properties)


def requested(reservation_id: int, *, event_id: UUID | None = None, **changes: Any) -> OutgoingMessage:
    return message(EventType.RESERVATION_REQUESTED, data(reservation_id, **changes), event_id=event_id)


def delivered(outgoing: OutgoingMessage) -> ReceivedMessage:
    return ReceivedMessage(
        1, outgoing.body, outgoing.routing_key, None, None, None, {}, redelivered=False, received=time.monotonic()
    )


class Harness:
    def __init__(self, database: Database, pool: Pool, broker: Broker, amqp_url: SecretStr) -> None:
        self.database = database
        self.pool = pool
        self.broker = broker
        self.amqp_url = amqp_url
        self.publisher = Publisher(broker, declare_events)

    async def publish(self, *messages: OutgoingMessage) -> None:
        """Publish again what was not confirmed, as the relay does: a new quorum queue refuses messages until it has a
        leader."""
        pending = messages
        async with asyncio.timeout(20):
            while True:
                outcomes = await self.publisher.publish_all(pending)
                results = zip(pending, outcomes, strict=True)
                pending = tuple(message for message, outcome in results if not isinstance(outcome, Confirmed))
                if not pending:
                    return
                await asyncio.sleep(0.1)

    async def reserve(self, **columns: Any) -> int:
        """Insert a reservation and return its id."""
        given = {"customer_id": 5, "restaurant_id": 10, "agency_id": 7, "party_size": 4, "slot_time": SLOT} | columns
        names = ", ".join(given)
        places = ", ".join(f"${number}" for number in range(1, len(given) + 1))
        identity = await self.pool.fetchval(
            f"INSERT INTO reservation ({names}) VALUES ({places}) RETURNING id", *given.values()
        )
        assert isinstance(identity, int)
        return identity

    async def count(self, table: str, where: str = "true") -> int:
        return int(await self.pool.fetchval(f"SELECT count(*) FROM {table} WHERE {where}"))

    async def is_empty(self, table: str) -> bool:
        return await self.count(table) == 0

    async def is_expanded(self) -> bool:
        """Whether no L1 row is open."""
        return not await self.count("notification_outbox", "status IN ('PENDING', 'PROCESSING', 'FAILED')")

    async def processed(self, events: int) -> bool:
        return await self.count("processed_event") == 4 * events and await self.is_expanded()

    def settings(self, **changes: Any) -> Settings:
        given: dict[str, Any] = {
            "database_url": self.database.url_of("notification_fanout"),
            "amqp_url": self.amqp_url,
            "host": "127.0.0.1",
            "port": free_port(),
        }
        return Settings(**given | changes)

    @asynccontextmanager
    async def replica(self, **changes: Any) -> AsyncIterator[Stop]:
        """The whole service in this process."""
        stop = Stop()
        running = asyncio.create_task(serve_until(self.settings(**changes), stop))
        try:
            yield stop
        finally:
            stop.request()
            async with asyncio.timeout(10):
                await running

    @asynccontextmanager
    async def observed_pool(self, statements: list[str]) -> AsyncIterator[Pool]:
        """A pool that records every statement it sends."""

        async def observe(connection: Any) -> None:
            await prepare_connection(connection)
            connection.add_query_logger(lambda record: statements.append(record.query))

        url = self.database.url_of("notification_fanout").get_secret_value()
        async with asyncpg.create_pool(url, init=observe, min_size=1, max_size=1) as pool:
            statements.clear()
            yield pool

    @asynccontextmanager
    async def process(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """The whole service in its own process, which a test can kill."""
        environment = {
            **os.environ,
            "DATABASE_URL": self.database.url_of("notification_fanout").get_secret_value(),
            "AMQP_URL": self.amqp_url.get_secret_value(),
            "HOST": "127.0.0.1",
            "PORT": str(free_port()),
            "LOG_LEVEL": "ERROR",
            "LISTENER_BATCH_SIZE": "5",
        }
        started = await asyncio.create_subprocess_exec(sys.executable, "-m", "notification_fanout", env=environment)
        try:
            yield started
        finally:
            with contextlib.suppress(ProcessLookupError):
                started.send_signal(signal.SIGKILL)
            await started.wait()

    @asynccontextmanager
    async def live_updates(self) -> AsyncIterator[list[AddressedFrame]]:
        """Collects the frames that a gateway receives from now on."""
        channel = await self.broker.open_channel(confirms=False)
        await declare_live(channel)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(LIVE_EXCHANGE)
        frames: list[AddressedFrame] = []

        async def on_message(delivered: AbstractIncomingMessage) -> None:
            frames.extend(decode_frames(delivered.body))

        await queue.consume(on_message, no_ack=True)
        yield frames
        if not channel.is_closed:
            await channel.close()

    async def take_dead_letters(self) -> list[dict[str, Any]]:
        """Consume the dead queue and return the headers."""
        channel = await self.broker.open_channel(confirms=False)
        await declare_events(channel)
        queue = await channel.get_queue(DEAD_QUEUE)
        found = []
        while (received := await queue.get(no_ack=True, fail=False)) is not None:
            found.append(dict(received.headers))
        await channel.close()
        return found


def frames_of(frames: Sequence[AddressedFrame], frame_type: str) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """The frames of one type, with their addresses."""
    decoded = [(tuple(frame.to), orjson.loads(frame.text)) for frame in frames]
    return [(to, text) for to, text in decoded if text["type"] == frame_type]
