"""The limit of messages per recipient and hour, on real rows and with several expanders."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from notification_fanout import store
from notification_fanout.recipient_limits import RecipientLimits
from tablebell.events import EventType
from tablebell.people import Audience
from tablebell.testing import eventually, plan

from .harness import Harness, data, message, requested
from .test_expander import expander, listen

HOUR = timedelta(hours=1)
LIMITS = RecipientLimits(customer_sms=3, customer_other=30, staff=3600)
CUSTOMER = Audience.CUSTOMER


async def sms(harness: Harness) -> list[asyncpg.Record]:
    return await harness.pool.fetch(
        "SELECT * FROM notification_channel_send WHERE channel_type = 'SMS' AND user_type = 'CUSTOMER' ORDER BY id"
    )


async def test_a_bombed_customer_gets_few_sms_and_the_last_state(harness: Harness) -> None:
    async with expander(harness, limits=LIMITS) as the_expander:
        for version in range(1, 13):
            changed = message(EventType.RESERVATION_CHANGED, data(1, party_size=version), version=version)
            await listen(harness, changed, audience=CUSTOMER)
            await the_expander.run_once()
            await harness.pool.execute(  # what is due is sent at once
                "UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT', sent_at = now()"
                " WHERE is_sent IS NULL AND next_attempt_at <= clock_timestamp()"
            )
    *earlier, last = await sms(harness)
    assert [row["outcome"] for row in earlier] == ["SENT"] * 3 + ["WITHDRAWN"] * 8
    assert (last["is_sent"], last["aggregate_version"]) == (None, 12)
    assert last["next_attempt_at"] == earlier[0]["next_attempt_at"] + HOUR
    assert last["last_error"].startswith("at most 3 messages an hour to one recipient on SMS; waits until ")
    others = "channel_type <> 'SMS' AND user_type = 'CUSTOMER'"
    assert await harness.count("notification_channel_send", f"{others} AND is_sent") == 24, "e-mail and push have more"


async def test_reservations_of_one_batch_share_the_limit(harness: Harness) -> None:
    async with expander(harness, limits=LIMITS) as the_expander:
        await listen(harness, *(requested(number) for number in range(1, 9)), audience=CUSTOMER)
        await the_expander.run_once()
    times = [row["next_attempt_at"] for row in await sms(harness)]
    waits = [round((each - times[0]) / HOUR) for each in times]
    assert waits == [0, 0, 0, 1, 1, 1, 2, 2]


@pytest.mark.timeout(60)
async def test_two_expanders_keep_the_limit_together(harness: Harness) -> None:
    replica = {"customer_sms_per_hour": 3, "expander_linger_seconds": 0}
    async with harness.replica(**replica), harness.replica(**replica):
        for number in range(1, 41):
            await harness.publish(requested(number))
        await eventually(lambda: harness.processed(40), within=30)
    rows = await sms(harness)
    assert len(rows) == 40
    times = sorted(row["next_attempt_at"] for row in rows)
    assert all(later - earlier >= HOUR for earlier, later in zip(times, times[3:], strict=False))


async def test_expanders_take_turns_on_one_recipient(harness: Harness) -> None:
    """The second one counts what the first has not committed yet, because it waits."""
    recipients = RecipientLimits(customer_sms=3)
    async with expander(harness, limits=recipients) as the_expander, harness.pool.acquire() as other:
        phone = await harness.pool.fetchval("SELECT phone FROM customer WHERE id = 5")
        await listen(harness, requested(1), audience=CUSTOMER)
        async with other.transaction():
            await other.execute(store.SQL["lock_recipients"], [f"SMS {phone}"])
            running = asyncio.create_task(the_expander.run_once())
            await asyncio.sleep(0.3)
            assert not running.done()
            await other.execute(
                "INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id,"
                " restaurant_id, recipient) SELECT 900 + n, 'SMS', 'CUSTOMER', 5, 10, $1 FROM generate_series(1, 3) n",
                phone,
            )
        await running
    assert (await sms(harness))[-1]["last_error"] is not None, "it waits for the three that were committed meanwhile"


async def test_a_large_batch_takes_few_locks(harness: Harness) -> None:
    async with harness.pool.acquire() as connection, connection.transaction():
        await connection.execute(store.SQL["lock_recipients"], [f"SMS +39333{number:07}" for number in range(5000)])
        locks = await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 45")
    assert locks == 128


async def test_a_limit_of_0_takes_no_lock_and_reads_nothing(harness: Harness) -> None:
    statements: list[str] = []
    async with expander(harness, statements=statements) as the_expander:
        await listen(harness, requested(1), audience=CUSTOMER)
        await the_expander.run_once()
    assert not set(statements) & {store.SQL["lock_recipients"], store.SQL["find_due_times"]}


async def test_counting_uses_its_index_and_reads_one_hour(harness: Harness) -> None:
    await harness.pool.execute(
        "INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id,"
        " recipient, is_sent, outcome, next_attempt_at)"
        " SELECT n, 'SMS', 'CUSTOMER', n % 50, 10, '+39' || n % 50, CASE WHEN n % 5 > 0 THEN n % 3 > 0 END,"
        "        CASE WHEN n % 5 > 0 AND n % 3 > 0 THEN 'SENT' WHEN n % 5 > 0 THEN 'SKIPPED' END,"
        "        now() - n * interval '5 seconds' FROM generate_series(1, 20000) AS n"
    )
    await harness.pool.execute("VACUUM ANALYZE notification_channel_send")
    nodes = await plan(harness.pool, store.SQL["find_due_times"], ["SMS", "SMS"], ["+397", "+398"], [3600, 6], [1, 1])
    scans = [node for node in nodes if node.get("Relation Name") == "notification_channel_send"]
    assert {node["Index Name"] for node in scans} == {"notification_channel_send_recipient"}
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 30
