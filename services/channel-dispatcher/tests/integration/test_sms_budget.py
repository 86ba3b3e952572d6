"""The limit of SMS per day holds for all dispatchers together, and delays what exceeds it."""

import asyncio
from datetime import timedelta

import pytest

from channel_dispatcher import store
from channel_dispatcher.channels.sms import SmsSettings
from channel_dispatcher.sms_budget import SmsBudget
from tablebell.people import Channel
from tablebell.postgres import Connection
from tablebell.testing import eventually, plan
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness

SMS = Channel.SMS
LEASE = timedelta(seconds=30)
REASON = "the limit of 5 SMS in 24 hours is reached"
POSTPONED = (
    "is_sent IS NULL AND next_attempt_at > now() + interval '9 minutes' AND last_error = $1 AND attempt_count = 0"
)


async def count(harness: Harness, where: str, *values: object) -> int:
    return int(await harness.pool.fetchval(f"SELECT count(*) FROM notification_channel_send WHERE {where}", *values))


async def test_dispatchers_together_send_no_more_than_the_limit(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.2})
    await harness.add(SMS, 40)
    changes = {"sms_per_day": 5}
    async with harness.dispatching(SMS, changes=changes), harness.dispatching(SMS, changes=changes):

        async def waiting() -> bool:
            return await count(harness, POSTPONED, REASON) == 35

        await eventually(waiting)
    assert harness.sandbox.count(SandboxChannel.SMS).accepted == 5
    assert await count(harness, "is_sent") == 5
    assert await count(harness, "first_due_at IS NOT NULL") == 35, "the metrics of overdue rows see them"


async def test_concurrent_claims_stay_within_the_limit(harness: Harness) -> None:
    for restaurant in range(1, 11):
        await harness.add(SMS, 10, restaurant_id=restaurant)
    budget = SmsBudget(harness.service, per_day=25)

    async def claim(connection: Connection, limit: int) -> store.Claim:
        return await store.claim_fair(connection, SMS, limit=limit, lease=LEASE, after=0, max_attempts=5)

    claims = await asyncio.gather(*(budget.claim(8, claim) for _ in range(8)))
    assert sum(len(each.deliveries) for each in claims) == 25


async def test_sms_are_sent_again_when_earlier_ones_are_a_day_old(harness: Harness) -> None:
    first = await harness.add(SMS, 5)
    async with harness.dispatching(SMS, changes={"sms_per_day": 5}):
        await harness.finished(*first)
        (late,) = await harness.add(SMS)
        await eventually(lambda: was_postponed(harness, late))
        await harness.pool.execute(
            "UPDATE notification_channel_send SET sent_at = sent_at - interval '1 day', next_attempt_at = now()"
        )
        (row,) = await harness.finished(late)
    assert (row["outcome"], row["last_error"], row["attempt_count"]) == ("SENT", None, 1)


async def was_postponed(harness: Harness, row_id: int) -> bool:
    return bool((await harness.row(row_id))["last_error"] == REASON)


async def test_an_sms_that_would_be_too_late_expires_with_the_reason(harness: Harness) -> None:
    sent = await harness.add(SMS, 5)
    async with harness.dispatching(SMS, changes={"sms_per_day": 5}):
        await harness.finished(*sent)
        not_after = await harness.pool.fetchval("SELECT now() + interval '5 minutes'")
        (late,) = await harness.add(SMS, not_after=not_after)
        (row,) = await harness.finished(late)
    assert (row["outcome"], row["is_sent"]) == ("EXPIRED", False)
    assert row["last_error"] == f"{REASON}; too late to be sent"


async def test_a_crash_does_not_use_up_the_limit_for_ever(harness: Harness) -> None:
    ids = await harness.add(SMS, 5)
    await store.claim_fair(harness.service, SMS, limit=5, lease=timedelta(milliseconds=300), after=0, max_attempts=5)
    async with harness.dispatching(SMS, lease=1, changes={"sms_per_day": 5}):
        rows = await harness.finished(*ids)
    assert {row["outcome"] for row in rows} == {"SENT"}


async def test_the_default_allows_a_friday_night(harness: Harness) -> None:
    """A request every 2 s for 4 hours: an SMS to each of three of the staff, and three to the customer."""
    settings = harness.settings(SMS)
    assert isinstance(settings, SmsSettings)
    assert settings.sms_per_day > 4 * 1800 * (3 + 3)


async def test_no_limit_takes_no_lock(harness: Harness) -> None:
    ids = await harness.add(SMS, 3)
    async with harness.pool.acquire() as other, other.transaction():
        await store.lock_sms(other)
        async with harness.dispatching(SMS, changes={"sms_per_day": 0}):
            await harness.finished(*ids)


@pytest.mark.timeout(60)
async def test_counting_uses_its_indexes(harness: Harness) -> None:
    for channel in (SMS, Channel.EMAIL):
        await harness.add(channel, 3000)
    await harness.pool.execute(
        "UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT',"
        " sent_at = now() - id * interval '1 minute'"
    )
    await harness.add(SMS, 2000)
    await harness.pool.execute("VACUUM ANALYZE notification_channel_send")
    nodes = await plan(harness.pool, store.SQL["count_sms"])
    scans = [node for node in nodes if "Scan" in node["Node Type"] and "Index Name" in node]
    assert {node["Index Name"] for node in scans} == {
        "notification_channel_send_sms_sent",
        "notification_channel_send_sms_leased",
    }
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 24 * 60
