"""notification-fanout: notifications per second compared with bare inserts of the same rows, and the latency to L2."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import uuid4

from pamqp.commands import Basic
from pydantic import SecretStr

from bench.harness import Figure, Harness
from bench.process import python_process
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.language import languages
from notification_fanout.listener import EventListener
from notification_fanout.message_parser import ReservationEvent, parse_message
from notification_fanout.render import render_text
from tablebell.events import EventType, ReservationData, encode_event, routing_key
from tablebell.lifecycle import Stop
from tablebell.outbox import Level
from tablebell.people import Audience
from tablebell.postgres import Pool, connect, open_pool
from tablebell.rabbit import Broker, Consumer, OutgoingMessage, Publisher, ReceivedMessage, open_broker
from tablebell.testing import Database, eventually, free_port
from tablebell.topology import DEAD_QUEUE, EVENT_EXCHANGE, EVENT_QUEUES, declare_events
from tablebell.wakeups import WakeupListener
from tablebell_tools.unlimited import UNLIMITED

ROUNDS = 5
BATCH = 100
EVENTS = 1_000
RATE = 50
SECONDS = 20
WARM_UP = RATE
PEOPLE = {Audience.RESTAURANT: (50, 51, 52), Audience.CUSTOMER: (5,), Audience.ADMIN: (1, 2), Audience.AGENCY: (70,)}
LOCALES = {52: "en", 2: "en", 70: "es"}
ROWS_PER_EVENT = 17
LOOK_SECONDS = 0.05
TABLES = "processed_event, event_notification, notification, notification_outbox, notification_channel_send"


async def measure(harness: Harness) -> list[Figure]:
    handled, consumed, bare = [], [], []
    async with harness.database() as database, open_pool(database.url, "bench", size=10) as pool:
        for number in range(ROUNDS):
            handled.append(await _handle(database, pool))
            bare.append(await _insert(database, pool))
            consumed.append(await _consume(harness, database, pool))
            harness.say(
                f"round {number + 1}: {handled[-1]:,.0f} notifications a second, {consumed[-1]:,.0f} from the queues,"
                f" bare inserts {bare[-1]:,.0f}"
            )
    harness.say(f"{RATE} events a second for {SECONDS} s")
    async with harness.database() as database, harness.vhost() as amqp_url:
        waits = sorted(await _wait_for_l2(database, amqp_url))
    created, ceiling = statistics.median(handled), statistics.median(bare)
    middle, late = statistics.median(waits) * 1000, waits[int(len(waits) * 0.99)] * 1000
    events = f"{EVENTS} events in batches of {BATCH}"
    note = f"{RATE} events/s for 7 people each, {len(waits)} events, from the publish until all 17 rows can be read"
    return [
        Figure("notifications created", created, "1/s", ceiling, "≥ 0.5 of bare", created >= 0.5 * ceiling,
               f"{events}, from received messages to the commit"),
        Figure("notifications created from queues", statistics.median(consumed), "1/s", ceiling,
               note=f"{events}, with the reading of four messages per event from RabbitMQ"),
        Figure("to L2, p50", middle, "ms", None, "≤ 20 ms", middle <= 20, note),
        Figure("to L2, p99", late, "ms", None, "≤ 80 ms", late <= 80, note),
    ]  # fmt: skip


async def _handle(database: Database, pool: Pool) -> float:
    """Four listeners at once. Their messages are in memory, as the rows of the bare inserts are."""
    await pool.execute(f"TRUNCATE {TABLES} CASCADE")
    deliveries = [_delivery(number) for number in range(1, EVENTS + 1)]
    batches = [deliveries[start : start + BATCH] for start in range(0, EVENTS, BATCH)]
    broker = Broker(SecretStr("amqp://127.0.0.1"), "bench")  # never used: these events have no frames

    async def listen(audience: Audience, own: Pool) -> None:
        listener = EventListener(audience, own, FramePublisher(broker), lambda: None)
        for batch in batches:
            await listener.handle(batch)

    async with open_pool(database.url_of("notification_fanout"), "bench", size=4) as own:
        began = time.monotonic()
        await asyncio.gather(*(listen(audience, own) for audience in Audience))
        took = time.monotonic() - began
    return EVENTS * 7 / took


async def _consume(harness: Harness, database: Database, pool: Pool) -> float:
    """Four listeners consume queues that were filled before."""
    await pool.execute(f"TRUNCATE {TABLES} CASCADE")
    stop = Stop()
    async with (
        harness.vhost() as amqp_url,
        open_broker(amqp_url, "bench") as broker,
        open_pool(database.url_of("notification_fanout"), "bench", size=10) as own,
    ):
        publisher = Publisher(broker, declare_events)
        await publisher.publish_all([_message(number) for number in range(1, EVENTS + 1)])
        began = time.monotonic()
        consumers = [asyncio.create_task(_consumer(each, broker, own).run(stop)) for each in Audience]
        await eventually(lambda: _has_created(pool, EVENTS * 7), within=60, every=0.02)
        took = time.monotonic() - began
        stop.request()
        await asyncio.gather(*consumers)
        await publisher.close()
    return EVENTS * 7 / took


def _consumer(audience: Audience, broker: Broker, pool: Pool) -> Consumer:
    listener = EventListener(audience, pool, FramePublisher(broker), lambda: None)
    return Consumer(broker, EVENT_QUEUES[audience], DEAD_QUEUE, listener.handle, declare_events, batch_size=BATCH)


async def _has_created(pool: Pool, notifications: int) -> bool:
    return bool(await pool.fetchval("SELECT count(*) FROM notification_outbox") >= notifications)


async def _insert(database: Database, pool: Pool) -> float:
    """The same rows, prepared before, in the same batches and transactions, over one connection."""
    await pool.execute(f"TRUNCATE {TABLES} CASCADE")
    events = [_event(number) for number in range(1, EVENTS + 1)]
    texts = {
        (audience, code): render_text(EventType.RESERVATION_REQUESTED, audience, language, events[0].data)
        for audience in Audience
        for code, language in languages().items()
    }
    connection = await connect(database.url, "bench")
    began = time.monotonic()
    for start in range(0, EVENTS, BATCH):
        batch = events[start : start + BATCH]
        for audience in Audience:
            async with connection.transaction():
                ids = [each.event.event_id for each in batch]
                await connection.execute(
                    "INSERT INTO processed_event (event_id, listener) SELECT unnest($1::uuid[]), $2",
                    ids, audience.listener,
                )  # fmt: skip
                rows = await connection.fetch(
                    "INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id,"
                    " aggregate_version, properties, headers, shared_read)"
                    " SELECT e, 'RESERVATION_REQUESTED', $2, r, 10, 1, p, h, true"
                    " FROM unnest($1::uuid[], $3::bigint[], $4::jsonb[], $5::jsonb[]) AS g (e, r, p, h) RETURNING id",
                    ids, audience, [each.data.reservation_id for each in batch],
                    [each.event.data for each in batch], [each.correlation.as_headers() for each in batch],
                )  # fmt: skip
                recipients = [(row["id"], user) for row in rows for user in PEOPLE[audience]]
                words = [texts[audience, LOCALES.get(user, "it")] for _, user in recipients]
                rows = await connection.fetch(
                    "INSERT INTO notification (event_notification_id, user_id, user_type, title, body)"
                    " SELECT e, u, $5, t, b FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])"
                    " AS g (e, u, t, b) RETURNING id",
                    [event for event, _ in recipients], [user for _, user in recipients],
                    [text.title for text in words], [text.body for text in words], audience.user_type,
                )  # fmt: skip
                await connection.execute(
                    "INSERT INTO notification_outbox (notification_id, notification_type, partition)"
                    " SELECT n, $2, n % 16 FROM unnest($1::bigint[]) AS n",
                    [row["id"] for row in rows], audience,
                )  # fmt: skip
    took = time.monotonic() - began
    await connection.close()
    return EVENTS * 7 / took


async def _wait_for_l2(database: Database, amqp_url: SecretStr) -> list[float]:
    """For each event, the seconds from its publish until another connection can read all of its L2 rows."""
    async with (
        open_pool(database.url, "bench", size=2) as pool,
        open_broker(amqp_url, "bench") as broker,
        _service(database, amqp_url),
    ):
        publisher = Publisher(broker, declare_events)
        published: dict[int, float] = {}
        looking = asyncio.create_task(_look(database, pool, WARM_UP + RATE * SECONDS))
        began = time.monotonic()
        for number in range(1, WARM_UP + RATE * SECONDS + 1):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            published[number] = time.monotonic()
            await publisher.publish(_message(number))
        complete = await asyncio.wait_for(looking, 30)
        await publisher.close()
    # The first second is not counted: the service connects, prepares its statements and reads the catalogue.
    return [complete[number] - published[number] for number in published if number > WARM_UP]


async def _look(database: Database, pool: Pool, events: int) -> dict[int, float]:
    """When the last of each reservation's 17 rows could be read.

    It queries only after a wake-up of L2, because each query takes time from the measured service.
    """
    first_seen: dict[int, tuple[int, float]] = {}
    last, stop = 0, Stop()
    wakeup_listener = WakeupListener(database.url, "bench")
    announced = wakeup_listener.subscribe(Level.CHANNEL_SEND)
    hearing = asyncio.create_task(wakeup_listener.run(stop))
    while len(first_seen) < events * ROWS_PER_EVENT:
        await announced.wait(LOOK_SECONDS, stop)
        # Ids become visible out of order, by a few transactions at most: re-scan a few rows.
        rows = await pool.fetch(
            "SELECT id, notification_id FROM notification_channel_send WHERE id > $1 ORDER BY id LIMIT 1000",
            last - 3 * ROWS_PER_EVENT,
        )
        now = time.monotonic()
        for row in rows:
            first_seen.setdefault(row["id"], (row["notification_id"], now))
            last = max(last, row["id"])
    stop.request()
    await hearing
    notified = await pool.fetch(
        "SELECT n.id, e.reservation_id FROM notification AS n"
        " JOIN event_notification AS e ON e.id = n.event_notification_id"
    )
    reservations = {row["id"]: row["reservation_id"] for row in notified}
    complete: dict[int, float] = {}
    for notification_id, seen in first_seen.values():
        reservation_id = reservations[notification_id]
        complete[reservation_id] = max(seen, complete.get(reservation_id, 0.0))
    return complete


@asynccontextmanager
async def _service(database: Database, amqp_url: SecretStr) -> AsyncIterator[None]:
    """notification-fanout in a process of its own, as it is deployed."""
    settings = {
        **UNLIMITED,
        "DATABASE_URL": database.url_of("notification_fanout").get_secret_value(),
        "AMQP_URL": amqp_url.get_secret_value(),
        "LOG_LEVEL": "ERROR",
    }
    async with python_process("notification_fanout", port=free_port(), settings=settings):
        yield


def _message(number: int) -> OutgoingMessage:
    event_id = uuid4()
    # Reservations are for full and half hours.
    day = datetime.now(UTC).replace(hour=18, minute=0, second=0, microsecond=0)
    slot = day + timedelta(days=1 + number % 14, minutes=30 * (number % 8))
    data = ReservationData(
        reservation_id=number,
        customer_id=5,
        customer_name="Anna Bianchi",
        restaurant_id=10,
        restaurant_name="Trattoria del Porto",
        agency_id=7,
        party_size=4,
        slot_time=slot,
        timezone="Europe/Rome",
        status="NOT_ACCEPTED",
    )
    event_type = EventType.RESERVATION_REQUESTED
    body = encode_event(
        event_id=event_id,
        event_type=event_type,
        aggregate_type="reservation",
        aggregate_id=number,
        aggregate_version=1,
        occurred_at=datetime.now(UTC),
        correlation_id="bench",
        data_json=data.model_dump_json(by_alias=True),
    )
    properties = Basic.Properties(message_id=str(event_id), message_type=event_type, delivery_mode=2)
    return OutgoingMessage(EVENT_EXCHANGE, routing_key(event_type), body, properties)


def _delivery(number: int) -> ReceivedMessage:
    body = _message(number).body
    return ReceivedMessage(0, body, "", None, None, None, {}, redelivered=False, received=time.monotonic())


def _event(number: int) -> ReservationEvent:
    return cast("ReservationEvent", parse_message(_delivery(number)))
