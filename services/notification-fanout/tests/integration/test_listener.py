"""A listener processes each event once and in order, with any number of deliveries and replicas."""

import asyncio
import random
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.listener import EventListener
from tablebell.events import EventType
from tablebell.people import Audience
from tablebell.postgres import Pool
from tablebell.rabbit import Handled, Poison
from tablebell.testing import eventually

from .harness import SLOT, Harness, data, delivered, message, raw, requested


def listener(harness: Harness, pool: Pool, audience: Audience = Audience.RESTAURANT) -> EventListener:
    return EventListener(audience, pool, FramePublisher(harness.broker), lambda: None)


async def test_a_message_delivered_ten_times_to_three_replicas_is_processed_once(harness: Harness) -> None:
    events = [requested(number, event_id=uuid4()) for number in range(1, 6)]
    async with harness.replica(), harness.replica(), harness.replica():
        for _ in range(10):
            await harness.publish(*random.sample(events, len(events)))
        await eventually(lambda: harness.processed(5))
        await eventually(lambda: _all_queues_are_empty(harness))
    assert await harness.count("event_notification") == 5 * 4
    assert await harness.count("notification") == 5 * 7
    assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 5 * 7
    assert await harness.count("notification_channel_send") == 5 * 17


async def _all_queues_are_empty(harness: Harness) -> bool:
    channel = await harness.broker.open_channel(confirms=False)
    counts = [
        (await channel.declare_queue(f"event-stream.{name.lower()}", passive=True)).declaration_result.message_count
        for name in Audience
    ]
    await channel.close()
    return not any(counts)


async def test_replicas_that_handle_the_same_messages_concurrently_process_them_once(harness: Harness) -> None:
    batch = [delivered(requested(number)) for number in range(1, 21)]
    replicas = [listener(harness, harness.pool) for _ in range(5)]
    results = await asyncio.gather(*(each.handle(random.sample(batch, len(batch))) for each in replicas))
    assert all(result == Handled() for of_replica in results for result in of_replica)
    assert await harness.count("processed_event") == 20
    assert await harness.count("notification_restaurant") == 60
    assert await harness.count("notification_outbox") == 60


async def test_an_event_republished_after_the_retention_creates_no_second_notification(harness: Harness) -> None:
    old, new = requested(1), requested(2)
    await listener(harness, harness.pool).handle([delivered(old)])
    await harness.pool.execute("DELETE FROM processed_event")
    results = await listener(harness, harness.pool).handle([delivered(old), delivered(new)])
    assert results == [Handled(), Handled()]
    assert await harness.count("event_notification") == 2
    assert await harness.count("notification") == await harness.count("notification_outbox") == 6


async def test_a_message_repeated_within_a_batch_is_processed_once(harness: Harness) -> None:
    once = delivered(requested(1))
    assert await listener(harness, harness.pool).handle([once, once, once]) == [Handled(), Handled(), Handled()]
    assert await harness.count("notification_restaurant") == 3


@pytest.mark.parametrize("audience", list(Audience))
async def test_a_batch_takes_as_many_statements_for_50_events_and_300_recipients_as_for_one(
    harness: Harness, audience: Audience
) -> None:
    statements: list[str] = []
    async with harness.observed_pool(statements) as pool:
        handle = listener(harness, pool, audience).handle
        await handle([delivered(requested(1))])  # the first call also looks up parameter types
        statements.clear()
        await handle([delivered(requested(2))])
        for_one = len(statements)
        await harness.pool.execute(
            "INSERT INTO restaurant_users (restaurant_id, name) SELECT 10, 'staff' FROM generate_series(4, 300)"
        )
        statements.clear()
        await handle([delivered(requested(number)) for number in range(3, 53)])
    # BEGIN, append_processed_events, append_notifications, COMMIT, and the reset of the connection by the pool.
    assert len(statements) == for_one == 5, statements
    if audience is Audience.RESTAURANT:
        assert await harness.count("notification_restaurant") == 6 + 50 * 300


async def test_invalid_messages_go_to_the_dead_queue_with_a_reason_and_the_others_are_processed(
    harness: Harness,
) -> None:
    bad = [
        raw("RESERVATION_REQUESTED", b"{", "garbage"),
        message("RESERVATION_EATEN", data(1)),
        requested(3, restaurant_id=999),
        message("RESERVATION_REQUESTED", {"reservationId": 1}),
        requested(4, customer_name="nul \x00 byte"),
    ]
    await harness.publish(requested(1), *bad, requested(2))
    async with harness.replica():
        await eventually(lambda: harness.processed(2))
        reasons: list[str] = []

        async def all_dead() -> bool:
            reasons.extend(headers["x-dead-reason"] for headers in await harness.take_dead_letters())
            return len(reasons) == 4 * len(bad)

        await eventually(all_dead, every=0.2)
    assert await harness.count("notification") == 14
    for part in ("Invalid JSON", "eventType", "does not exist", "customerId", "NUL"):
        assert sum(part in reason for reason in reasons) == 4, (part, reasons)


async def test_a_message_whose_restaurant_is_created_later_can_be_processed_then(harness: Harness) -> None:
    batch = [delivered(requested(1, restaurant_id=12))]
    handle = listener(harness, harness.pool).handle
    assert isinstance((await handle(batch))[0], Poison)
    await harness.pool.execute("INSERT INTO restaurant (id, name) VALUES (12, 'New')")
    assert await handle(batch) == [Handled()]


async def test_a_message_is_acked_after_the_commit(harness: Harness) -> None:
    event_id = uuid4()
    async with harness.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        # A listener that handles this event has to wait for this transaction.
        await connection.execute("INSERT INTO processed_event VALUES ($1, 'RESTAURANT_LISTENER')", event_id)
        await _kill_waiting_process(harness, event_id)
        await transaction.rollback()
    assert await harness.count("notification_restaurant") == 0
    async with harness.replica():
        await eventually(lambda: harness.processed(1))
    assert await harness.count("notification_restaurant") == 3


async def _kill_waiting_process(harness: Harness, event_id: UUID) -> None:
    """Kill a process while its transaction is open and the message is not acked."""
    async with harness.process() as process:
        await harness.publish(requested(1, event_id=event_id))
        await eventually(lambda: _is_waiting(harness), within=15)
        process.kill()
        await process.wait()
        await eventually(lambda: _is_gone(harness))


async def _is_waiting(harness: Harness) -> bool:
    return bool(
        await harness.pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )


async def _is_gone(harness: Harness) -> bool:
    # The backend of a killed client ends only at its next write or by keepalive, so terminate it here.
    await harness.pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'notification-fanout%'"
    )
    return not await _is_waiting(harness)


async def test_events_of_one_batch_are_processed_in_the_order_of_their_versions(harness: Harness) -> None:
    batch = [delivered(message(EventType.RESERVATION_CHANGED, data(1), version=version)) for version in (3, 1, 4, 2)]
    await listener(harness, harness.pool, Audience.CUSTOMER).handle(batch)
    assert await _versions(harness, "CUSTOMER") == {1: [1, 2, 3, 4]}


@pytest.mark.timeout(60)
async def test_replicas_with_random_delays_create_notifications_in_order_and_a_missing_version_blocks_nothing(
    harness: Harness,
) -> None:
    await harness.pool.execute(
        "CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(random() * 0.03); RETURN NULL; END $$;"
        "CREATE TRIGGER delay BEFORE INSERT ON processed_event FOR EACH STATEMENT EXECUTE FUNCTION delay()"
    )
    gap = 4
    events = [
        message(EventType.RESERVATION_CANCELLED, data(number), version=version)  # notifies every audience
        for version in range(1, 9)
        for number in range(1, 11)
        if not (version == gap and number % 2)
    ]

    async def restart_a_replica() -> None:
        # The active consumer changes again and again.
        while not await harness.processed(len(events)):
            async with harness.replica(listener_batch_size=3):
                await asyncio.sleep(random.uniform(0.2, 0.6))

    async with harness.replica(listener_batch_size=3) as first, harness.replica(listener_batch_size=4):
        restarting = asyncio.create_task(restart_a_replica())
        for event in events:
            await harness.publish(event)
            if event is events[len(events) // 2]:
                first.request()
        await asyncio.wait_for(restarting, 40)
    for audience in Audience:
        for number, versions in (await _versions(harness, audience)).items():
            assert versions == [version for version in range(1, 9) if not (version == gap and number % 2)], audience
    assert await harness.count("notification") == len(events) * 7


async def _versions(harness: Harness, audience: str) -> dict[int, list[int]]:
    """The versions of each reservation in the order of its notifications."""
    rows = await harness.pool.fetch(
        "SELECT e.reservation_id, e.aggregate_version FROM event_notification AS e"
        " JOIN notification AS n ON n.event_notification_id = e.id WHERE e.audience = $1"
        " GROUP BY e.id ORDER BY min(n.created_at), min(n.id)",
        audience,
    )
    versions: dict[int, list[int]] = {}
    for row in rows:
        versions.setdefault(row["reservation_id"], []).append(row["aggregate_version"])
    return versions


@pytest.mark.timeout(90)
async def test_killed_replicas_lose_and_repeat_no_notification(harness: Harness) -> None:
    events = 150
    async with harness.process() as first, harness.process() as second, harness.process():
        for number in range(1, events + 1):
            await harness.publish(requested(number))
            if number == 1:
                await eventually(lambda: harness.processed(1), within=30)
            for victim, moment in ((first, 50), (second, 100)):
                if number == moment:
                    victim.kill()
        await eventually(lambda: harness.processed(events), within=40)
    assert await harness.count("event_notification") == events * 4
    assert await harness.count("notification") == events * 7
    assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == events * 7
    assert await harness.count("notification_channel_send") == events * 17


async def test_a_reminder_for_a_cancelled_or_changed_reservation_creates_no_notification(harness: Harness) -> None:
    cancelled, changed, unchanged = [
        await harness.reserve(status=status, slot_time=slot)
        for status, slot in (("CANCELLED", _slot(1)), ("ACCEPTED", _slot(2)), ("ACCEPTED", _slot(3)))
    ]
    reminders = [
        message(EventType.RESERVATION_REMINDER_DUE, data(number, slot_time=slot, reminder="2h"), version=2)
        for number, slot in ((cancelled, _slot(1)), (changed, _slot(1)), (unchanged, _slot(3)))
    ]
    await listener(harness, harness.pool, Audience.CUSTOMER).handle([delivered(each) for each in reminders])
    assert await harness.count("processed_event") == 3
    notified = await harness.pool.fetch("SELECT reservation_id FROM event_notification")
    assert [row["reservation_id"] for row in notified] == [unchanged]


def _slot(day: int) -> datetime:
    return SLOT + timedelta(days=day)
