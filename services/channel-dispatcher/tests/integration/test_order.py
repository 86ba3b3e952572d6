"""Messages about a reservation arrive in order per person and channel; superseded ones are not sent."""

import asyncio
import random
from collections import defaultdict
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from channel_dispatcher import store
from channel_dispatcher.attempt_record import AttemptRecord
from channel_dispatcher.delivery import Delivery
from tablebell.outbox import Level, OutboxTable, withdraw_channel_sends
from tablebell.people import Channel, UserType
from tablebell.retry import RetryPolicy
from tablebell.testing import append_rows, eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import MESSAGES, Harness

SMS = Channel.SMS
LEASE = timedelta(seconds=30)


async def tell(
    harness: Harness, version: int, reservation: int = 1, *, number: int = 0, supersedes: bool = True
) -> int:
    """Writes the SMS of a version as the fan-out does: superseded rows are withdrawn first."""
    text = f"reservation {reservation} version {version} number {number}"
    async with harness.pool.acquire() as connection, connection.transaction():
        if supersedes:
            await withdraw_earlier(connection, version, reservation)
        event = await connection.fetchval(
            "INSERT INTO event_notification (event_id, event_type, audience, restaurant_id, reservation_id,"
            " aggregate_version) VALUES (gen_random_uuid(), 'RESERVATION_CHANGED', 'CUSTOMER', 10, $1, $2)"
            " RETURNING id",
            reservation,
            version,
        )
        notification = await connection.fetchval(
            "INSERT INTO notification (event_notification_id, user_id, user_type, title, body)"
            " VALUES ($1, 5, 'CUSTOMER', 'title', 'body') RETURNING id",
            event,
        )
        row = {
            "notification_id": notification,
            "channel_type": SMS,
            "user_type": "CUSTOMER",
            "user_id": 5,
            "restaurant_id": 10,
            "reservation_id": reservation,
            "aggregate_version": version,
            "recipient": "+393330000005",
            "message": {**MESSAGES[SMS], "text": text},
        }
        (row_id,) = await append_rows(connection, Level.CHANNEL_SEND, [row])
    return row_id


async def withdraw_earlier(connection: Any, version: int, reservation: int) -> None:
    rows = await connection.fetch(
        "SELECT id FROM event_notification WHERE reservation_id = $1 AND aggregate_version < $2 ORDER BY id"
        " FOR NO KEY UPDATE",
        reservation,
        version,
    )
    reason = f"superseded by RESERVATION_CHANGED (version {version})"
    await withdraw_channel_sends(connection, [row["id"] for row in rows], [reason] * len(rows), UserType.CUSTOMER)


async def claim(harness: Harness, lease: timedelta = LEASE) -> list[Delivery]:
    claimed = await store.claim_fair(harness.service, SMS, limit=10, lease=lease, after=0, max_attempts=5)
    return list(claimed.deliveries)


def texts(harness: Harness) -> list[tuple[int, int, int]]:
    """Reservation, version and number of each SMS, in the order of arrival."""
    words = [message.text.split() for message in harness.sandbox.messages(SandboxChannel.SMS)]
    return [(int(each[1]), int(each[3]), int(each[5])) for each in words]


def arrivals(harness: Harness) -> list[tuple[int, int]]:
    return [(reservation, version) for reservation, version, _ in texts(harness)]


def outcome(row: asyncpg.Record) -> tuple[str, str | None]:
    return row["outcome"], row["last_error"]


async def test_a_retry_is_withdrawn_after_a_later_version(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "http", "status": 500, "count": 1})
    first = await tell(harness, 1)
    async with harness.dispatching(SMS, policy=RetryPolicy(5, (timedelta(seconds=2),))):
        await eventually(lambda: failed_once(harness, first))
        second = await tell(harness, 2)
        await harness.finished(first, second)
        await asyncio.sleep(2.5)  # the pause of the retry is over
    assert outcome(await harness.row(first)) == ("WITHDRAWN", "superseded by RESERVATION_CHANGED (version 2)")
    assert arrivals(harness) == [(1, 2)]


async def failed_once(harness: Harness, row_id: int) -> bool:
    row = await harness.row(row_id)
    return row["last_error"] is not None and row["lease_token"] is None


@pytest.mark.parametrize("supersedes", [True, False], ids=["superseded", "of the same kind"])
async def test_a_message_in_flight_arrives_before_its_successor(harness: Harness, supersedes: bool) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 1, "count": 1})
    first = await tell(harness, 1)
    async with harness.dispatching(SMS, poll=30), harness.dispatching(SMS, poll=0.05):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted == 1)
        second = await tell(harness, 2, supersedes=supersedes)
        await asyncio.sleep(0.5)
        assert (await harness.row(second))["attempt_count"] == 0, "it waits for the outcome of the first"
        rows = await harness.finished(first, second)
    assert [outcome(row) for row in rows] == [("SENT", None), ("SENT", None)], "the first keeps its real outcome"
    assert arrivals(harness) == [(1, 1), (1, 2)]


async def test_a_row_that_waited_for_an_earlier_version_is_sent_without_a_poll(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.5, "count": 1})
    first = await tell(harness, 1)
    async with harness.dispatching(SMS, poll=60) as dispatchers:
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted == 1)
        second = await tell(harness, 2)
        dispatchers[SMS]._wakeup.now()  # as a notification does
        await harness.finished(first, second, within=5)


@pytest.mark.parametrize("result", ["RETRY", "THROTTLED", "DOWN", "UNTRIED", "EXHAUSTED"])
async def test_a_superseded_row_that_was_not_sent_is_withdrawn(harness: Harness, result: str) -> None:
    first = await tell(harness, 1)
    (held,) = await claim(harness)
    second = await tell(harness, 2)
    assert await claim(harness) == [], "the second waits for the first, which is leased"
    recorded = await store.record_if_leased(
        harness.service, [AttemptRecord(held, result, "busy", pause=timedelta(seconds=9))]
    )
    assert recorded == {first: store.Recorded("WITHDRAWN", unblocks=True)}
    assert outcome(await harness.row(first)) == ("WITHDRAWN", "superseded by RESERVATION_CHANGED (version 2)")
    assert [each.id for each in await claim(harness)] == [second]


async def test_a_superseded_row_of_a_crashed_dispatcher_is_withdrawn_and_blocks_no_row(harness: Harness) -> None:
    first = await tell(harness, 1)
    await claim(harness, lease=timedelta(milliseconds=300))
    second = await tell(harness, 2)
    async with harness.dispatching(SMS, lease=1):
        rows = await harness.finished(first, second)
    assert [row["outcome"] for row in rows] == ["WITHDRAWN", "SENT"]
    assert arrivals(harness) == [(1, 2)]


async def test_a_dead_row_that_is_requeued_after_a_later_version_is_withdrawn(harness: Harness) -> None:
    first = await tell(harness, 1)
    (held,) = await claim(harness)
    await store.record_if_leased(harness.service, [AttemptRecord(held, "EXHAUSTED", "HTTP 500")])
    second = await tell(harness, 2)
    row = await harness.row(first)
    assert (outcome(row), row["withdrawn_because"]) == (
        ("EXHAUSTED", "HTTP 500"),
        "superseded by RESERVATION_CHANGED (version 2)",
    )
    async with harness.dispatching(SMS):
        await harness.finished(second)
        await OutboxTable(Level.CHANNEL_SEND).requeue(harness.pool, [first])
        (row,) = await harness.finished(first)
    assert outcome(row) == ("WITHDRAWN", "superseded by RESERVATION_CHANGED (version 2)")
    assert arrivals(harness) == [(1, 2)]


async def test_rows_of_one_version_are_sent_in_the_order_of_insertion(harness: Harness) -> None:
    ids = [await tell(harness, 2) for _ in range(3)]
    for expected in ids:
        (held,) = await claim(harness)
        assert held.id == expected
        await store.record_if_leased(harness.service, [AttemptRecord(held, "SENT")])


async def test_rows_of_other_people_reservations_and_channels_do_not_wait(harness: Harness) -> None:
    first = await tell(harness, 1)
    other = await tell(harness, 2, reservation=2)
    (somebody,) = await harness.add(SMS, notification_id=901, reservation_id=1, aggregate_version=3)
    (mail,) = await harness.add(Channel.EMAIL, notification_id=902, user_id=5, reservation_id=1, aggregate_version=3)
    assert {each.id for each in await claim(harness)} == {first, other, somebody}
    claimed = await store.claim_fair(harness.service, Channel.EMAIL, limit=10, lease=LEASE, after=0, max_attempts=5)
    assert [each.id for each in claimed.deliveries] == [mail]


@pytest.mark.timeout(120)
async def test_messages_arrive_in_order_despite_random_failures_and_delays(harness: Harness) -> None:
    chance = random.Random(7)
    ids: list[int] = []

    async def live(reservation: int) -> None:
        version = 1
        for number in range(12):
            version += chance.randint(0, 1)  # a reminder has the version of the accepted event
            ids.append(await tell(harness, version, reservation, number=number))
            await asyncio.sleep(chance.uniform(0, 0.4))

    async def disturb() -> None:
        while True:
            faults = [
                {"kind": "delay", "seconds": chance.uniform(0.05, 0.4), "count": chance.randint(1, 4)},
                {"kind": "http", "status": 500, "count": chance.randint(1, 3)},
            ]
            await harness.sandbox.set_faults(SandboxChannel.SMS, chance.choice(faults))
            await asyncio.sleep(0.2)

    policy = RetryPolicy(20, (timedelta(milliseconds=150),))
    async with harness.dispatching(SMS, policy=policy, lease=2), harness.dispatching(SMS, policy=policy, lease=2):
        disturbing = asyncio.create_task(disturb())
        await asyncio.gather(*(live(reservation) for reservation in range(1, 9)))
        disturbing.cancel()
        await harness.sandbox.set_faults(SandboxChannel.SMS)
        rows = await harness.finished(*ids, within=60)

    assert {row["outcome"] for row in rows} == {"SENT", "WITHDRAWN"}, "otherwise the test shows nothing"
    arrived: dict[int, list[int]] = defaultdict(list)
    for reservation, _, number in texts(harness):
        arrived[reservation].append(number)
    assert {reservation: each for reservation, each in arrived.items() if each != sorted(each)} == {}
    assert {each[-1] for each in arrived.values()} == {11}, "everybody got the last version"
