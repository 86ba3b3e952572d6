"""Only the process with the lease token writes the outcome."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from channel_dispatcher import store
from channel_dispatcher.attempt_record import AttemptRecord
from channel_dispatcher.delivery import Delivery
from tablebell.people import Channel
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness

SMS = Channel.SMS
LEASE = timedelta(seconds=30)


async def claim(harness: Harness, lease: timedelta = LEASE) -> Delivery:
    claimed = await store.claim_fair(harness.service, SMS, limit=10, lease=lease, after=0, max_attempts=5)
    (delivery,) = claimed.deliveries
    return delivery


async def test_the_attempt_is_recorded_before_the_call_and_no_database_connection_is_held(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 1})
    (row_id,) = await harness.add(SMS)
    async with harness.dispatching(SMS, poll=60):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted == 1)
        (attempt,) = await harness.attempts(row_id)
        assert (attempt["attempt"], attempt["finished_at"], attempt["outcome"]) == (1, None, None)
        assert harness.service.get_idle_size() == harness.service.get_size()
        busy = await harness.pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'test-dispatcher' AND state <> 'idle'"
        )
        assert busy == 0
        await harness.finished(row_id)


async def test_the_message_of_a_slow_provider_is_not_sent_by_another_process(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 2})
    (row_id,) = await harness.add(SMS)
    async with harness.dispatching(SMS, lease=0.6), harness.dispatching(SMS, lease=0.6):
        (row,) = await harness.finished(row_id)
    assert (row["outcome"], row["attempt_count"]) == ("SENT", 1)
    assert harness.sandbox.count(SandboxChannel.SMS).accepted == 1


async def test_a_slow_message_does_not_delay_others_of_its_channel(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "delay", "seconds": 2, "match": "slow"})
    (slow,) = await harness.add(Channel.EMAIL, recipient="slow@mail.example")
    async with harness.dispatching(Channel.EMAIL):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.EMAIL).accepted == 1)
        others = await harness.add(Channel.EMAIL, 100)
        await harness.finished(*others)
        assert (await harness.row(slow))["is_sent"] is None
        await harness.finished(slow)


async def test_a_worker_that_lost_its_lease_writes_only_its_own_attempt(harness: Harness) -> None:
    (row_id,) = await harness.add(SMS)
    lost = await claim(harness, lease=timedelta(0))
    kept = await claim(harness)
    assert await store.record_if_leased(harness.service, [AttemptRecord(lost, "SENT", provider_message_id="SM1")]) == {}
    assert await store.extend_if_leased(harness.service, [lost], LEASE) == set()
    row = await harness.row(row_id)
    assert (row["is_sent"], row["lease_token"], row["provider_message_id"]) == (None, kept.token, None)
    first, second = await harness.attempts(row_id)
    assert (first["outcome"], second["outcome"]) == ("SENT", None), "the history has both attempts"
    recorded = await store.record_if_leased(harness.service, [AttemptRecord(kept, "SENT")])
    assert recorded == {row_id: store.Recorded("SENT", unblocks=False)}


async def test_an_unknown_token_writes_nothing(harness: Harness) -> None:
    (row_id,) = await harness.add(SMS)
    stranger = Delivery(row_id, uuid4(), 0, 1, "CUSTOMER", 1, "+39333", {}, {}, datetime.now(UTC))
    assert await store.record_if_leased(harness.service, [AttemptRecord(stranger, "SENT")]) == {}


async def test_a_row_withdrawn_while_in_flight_stays_withdrawn(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.5})
    (row_id,) = await harness.add(SMS)
    async with harness.dispatching(SMS):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted == 1)
        await harness.pool.execute(
            "UPDATE notification_channel_send SET is_sent = false, outcome = 'WITHDRAWN', lease_token = NULL, "
            "lease_until = NULL, last_error = 'handled by Giulia Ferri (CONFIRMED)'"
        )
        await asyncio.sleep(1)
    row = await harness.row(row_id)
    assert (row["is_sent"], row["outcome"]) == (False, "WITHDRAWN")
    assert [each["outcome"] for each in await harness.attempts(row_id)] == ["SENT"]


async def test_a_row_that_a_crashed_worker_left_on_its_last_attempt_is_exhausted(harness: Harness) -> None:
    (row_id,) = await harness.add(SMS)
    for _ in range(5):
        await claim(harness, lease=timedelta(0))
    async with harness.dispatching(SMS):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "EXHAUSTED", 5)
    assert row["last_error"] == "the dispatcher ended in the middle of the last attempt"
    assert harness.sandbox.count(SandboxChannel.SMS).accepted == 0


async def test_a_stop_finishes_started_sends_and_releases_the_rest(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.3})
    await harness.add(SMS, 40)
    async with harness.dispatching(SMS, changes={"sms_concurrency": 4}):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted >= 4)
    sent = harness.sandbox.count(SandboxChannel.SMS).accepted
    rows = await harness.pool.fetch("SELECT is_sent, attempt_count, lease_token FROM notification_channel_send")
    assert sum(row["is_sent"] is True for row in rows) == sent < 40
    assert {row["attempt_count"] for row in rows if row["is_sent"] is None} == {0}
    assert {row["lease_token"] for row in rows} == {None}
