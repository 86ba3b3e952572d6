"""What a listener promises: once, in order, whatever arrives how often and wherever."""

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

from .harness import SLOT, Stage, data, delivered, message, raw, requested


def listener(stage: Stage, pool: Pool, audience: Audience = Audience.RESTAURANT) -> EventListener:
    return EventListener(audience, pool, FramePublisher(stage.broker), lambda: None)


async def test_the_same_message_ten_times_to_three_replicas_makes_everything_once(stage: Stage) -> None:
    events = [requested(number, event_id=uuid4()) for number in range(1, 6)]
    async with stage.replica(), stage.replica(), stage.replica():
        for _ in range(10):
            await stage.tell(*random.sample(events, len(events)))
        await eventually(lambda: stage.processed(5))
        await eventually(lambda: _all_queues_are_empty(stage))
    assert await stage.count("event_notification") == 5 * 4
    assert await stage.count("notification") == 5 * 7
    assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == 5 * 7
    assert await stage.count("notification_channel_send") == 5 * 17


async def _all_queues_are_empty(stage: Stage) -> bool:
    channel = await stage.broker.open_channel(confirms=False)
    counts = [
        (await channel.declare_queue(f"event-stream.{name.lower()}", passive=True)).declaration_result.message_count
        for name in Audience
    ]
    await channel.close()
    return not any(counts)


async def test_replicas_that_hold_the_same_messages_at_the_same_time_create_everything_once(stage: Stage) -> None:
    batch = [delivered(requested(number)) for number in range(1, 21)]
    replicas = [listener(stage, stage.pool) for _ in range(5)]
    verdicts = await asyncio.gather(*(each.handle(random.sample(batch, len(batch))) for each in replicas))
    assert all(verdict == Handled() for line in verdicts for verdict in line)
    assert await stage.count("processed_event") == 20
    assert await stage.count("notification_restaurant") == 60
    assert await stage.count("notification_outbox") == 60


async def test_an_event_whose_processing_was_forgotten_is_told_to_nobody_again(stage: Stage) -> None:
    """Published again after the retention: what was told stands in the way of telling it twice, and is no poison."""
    old, new = requested(1), requested(2)
    await listener(stage, stage.pool).handle([delivered(old)])
    await stage.pool.execute("DELETE FROM processed_event")
    verdicts = await listener(stage, stage.pool).handle([delivered(old), delivered(new)])
    assert verdicts == [Handled(), Handled()]
    assert await stage.count("event_notification") == 2
    assert await stage.count("notification") == await stage.count("notification_outbox") == 6


async def test_a_message_twice_in_one_batch_counts_once(stage: Stage) -> None:
    once = delivered(requested(1))
    assert await listener(stage, stage.pool).handle([once, once, once]) == [Handled(), Handled(), Handled()]
    assert await stage.count("notification_restaurant") == 3


@pytest.mark.parametrize("audience", list(Audience))
async def test_the_statements_are_as_many_for_300_people_and_50_events_as_for_one(
    stage: Stage, audience: Audience
) -> None:
    statements: list[str] = []
    async with stage.observed_pool(statements) as pool:
        handle = listener(stage, pool, audience).handle
        await handle([delivered(requested(1))])  # the first asks for the types of its parameters too
        statements.clear()
        await handle([delivered(requested(2))])
        for_one = len(statements)
        await stage.pool.execute(
            "INSERT INTO restaurant_users (restaurant_id, name) SELECT 10, 'staff' FROM generate_series(4, 300)"
        )
        statements.clear()
        await handle([delivered(requested(number)) for number in range(3, 53)])
    # Begin, what is new, everything that follows from it, commit, and the pool's tidying up.
    assert len(statements) == for_one == 5, statements
    if audience is Audience.RESTAURANT:
        assert await stage.count("notification_restaurant") == 6 + 50 * 300


async def test_one_bad_message_goes_to_the_dead_queue_with_its_reason_and_the_others_are_done(stage: Stage) -> None:
    bad = [
        raw("RESERVATION_REQUESTED", b"{", "garbage"),
        message("RESERVATION_EATEN", data(1)),
        requested(3, restaurant_id=999),
        message("RESERVATION_REQUESTED", {"reservationId": 1}),
        requested(4, customer_name="nul \x00 byte"),
    ]
    await stage.tell(requested(1), *bad, requested(2))
    async with stage.replica():
        await eventually(lambda: stage.processed(2))
        reasons: list[str] = []

        async def all_dead() -> bool:
            reasons.extend(headers["x-dead-reason"] for headers in await stage.dead())
            return len(reasons) == 4 * len(bad)

        await eventually(all_dead, every=0.2)
    assert await stage.count("notification") == 14
    for part in ("Invalid JSON", "eventType", "does not exist", "customerId", "NUL"):
        assert sum(part in reason for reason in reasons) == 4, (part, reasons)


async def test_a_message_whose_restaurant_appears_later_can_be_told_then(stage: Stage) -> None:
    batch = [delivered(requested(1, restaurant_id=12))]
    handle = listener(stage, stage.pool).handle
    assert isinstance((await handle(batch))[0], Poison)
    await stage.pool.execute("INSERT INTO restaurant (id, name) VALUES (12, 'New')")
    assert await handle(batch) == [Handled()]


async def test_a_message_is_acked_after_the_commit_and_not_before(stage: Stage) -> None:
    event_id = uuid4()
    async with stage.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        # Whoever handles this event now has to wait for us.
        await connection.execute("INSERT INTO processed_event VALUES ($1, 'RESTAURANT_LISTENER')", event_id)
        await _kill_one_that_waits(stage, event_id)
        await transaction.rollback()
    assert await stage.count("notification_restaurant") == 0
    async with stage.replica():
        await eventually(lambda: stage.processed(1))
    assert await stage.count("notification_restaurant") == 3


async def _kill_one_that_waits(stage: Stage, event_id: UUID) -> None:
    """A process that has the message in hand and its transaction open, and is killed there."""
    async with stage.process() as process:
        await stage.tell(requested(1, event_id=event_id))
        await eventually(lambda: _is_waiting(stage), within=15)
        process.kill()
        await process.wait()
        await eventually(lambda: _is_gone(stage))


async def _is_waiting(stage: Stage) -> bool:
    return bool(
        await stage.pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )


async def _is_gone(stage: Stage) -> bool:
    # A killed client's backend notices when it next writes; we end it, as the kernel's keepalive would.
    await stage.pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'notification-fanout%'"
    )
    return not await _is_waiting(stage)


async def test_events_that_arrive_together_in_the_wrong_order_are_told_in_the_right_one(stage: Stage) -> None:
    line = [delivered(message(EventType.RESERVATION_CHANGED, data(1), version=version)) for version in (3, 1, 4, 2)]
    await listener(stage, stage.pool, Audience.CUSTOMER).handle(line)
    assert await _versions(stage, "CUSTOMER") == {1: [1, 2, 3, 4]}


@pytest.mark.timeout(60)
async def test_with_three_replicas_and_random_delays_every_listener_creates_in_order_and_a_gap_blocks_nothing(
    stage: Stage,
) -> None:
    await stage.pool.execute(
        "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(random() * 0.03); RETURN NULL; END $$;"
        "CREATE TRIGGER dawdle BEFORE INSERT ON processed_event FOR EACH STATEMENT EXECUTE FUNCTION dawdle()"
    )
    gap = 4
    story = [
        message(EventType.RESERVATION_CANCELLED, data(number), version=version)  # which concerns everybody
        for version in range(1, 9)
        for number in range(1, 11)
        if not (version == gap and number % 2)
    ]

    async def one_replica_after_another() -> None:
        # Whoever reads the queues goes away in the middle, again and again.
        while not await stage.processed(len(story)):
            async with stage.replica(listener_batch_size=3):
                await asyncio.sleep(random.uniform(0.2, 0.6))

    async with stage.replica(listener_batch_size=3) as first, stage.replica(listener_batch_size=4):
        coming_and_going = asyncio.create_task(one_replica_after_another())
        for event in story:
            await stage.tell(event)
            if event is story[len(story) // 2]:
                first.request()
        await asyncio.wait_for(coming_and_going, 40)
    for audience in Audience:
        for number, versions in (await _versions(stage, audience)).items():
            assert versions == [version for version in range(1, 9) if not (version == gap and number % 2)], audience
    assert await stage.count("notification") == len(story) * 7


async def _versions(stage: Stage, audience: str) -> dict[int, list[int]]:
    """The versions of each reservation in the order in which its notifications were created."""
    rows = await stage.pool.fetch(
        "SELECT e.reservation_id, e.aggregate_version FROM event_notification AS e"
        " JOIN notification AS n ON n.event_notification_id = e.id WHERE e.audience = $1"
        " GROUP BY e.id ORDER BY min(n.created_at), min(n.id)",
        audience,
    )
    lines: dict[int, list[int]] = {}
    for row in rows:
        lines.setdefault(row["reservation_id"], []).append(row["aggregate_version"])
    return lines


@pytest.mark.timeout(90)
async def test_replicas_killed_in_the_middle_lose_nothing_and_double_nothing(stage: Stage) -> None:
    events = 150
    async with stage.process() as first, stage.process() as second, stage.process():
        for number in range(1, events + 1):
            await stage.tell(requested(number))
            if number == 1:
                await eventually(lambda: stage.processed(1), within=30)
            for victim, moment in ((first, 50), (second, 100)):
                if number == moment:
                    victim.kill()
        await eventually(lambda: stage.processed(events), within=40)
    assert await stage.count("event_notification") == events * 4
    assert await stage.count("notification") == events * 7
    assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == events * 7
    assert await stage.count("notification_channel_send") == events * 17


async def test_a_reminder_for_a_reservation_that_was_cancelled_meanwhile_is_told_to_nobody(stage: Stage) -> None:
    cancelled, moved, good = [
        await stage.reserve(status=status, slot_time=slot)
        for status, slot in (("CANCELLED", _slot(1)), ("ACCEPTED", _slot(2)), ("ACCEPTED", _slot(3)))
    ]
    reminders = [
        message(EventType.RESERVATION_REMINDER_DUE, data(number, slot_time=slot, reminder="2h"), version=2)
        for number, slot in ((cancelled, _slot(1)), (moved, _slot(1)), (good, _slot(3)))
    ]
    await listener(stage, stage.pool, Audience.CUSTOMER).handle([delivered(each) for each in reminders])
    assert await stage.count("processed_event") == 3
    told = await stage.pool.fetch("SELECT reservation_id FROM event_notification")
    assert [row["reservation_id"] for row in told] == [good]


def _slot(day: int) -> datetime:
    return SLOT + timedelta(days=day)
