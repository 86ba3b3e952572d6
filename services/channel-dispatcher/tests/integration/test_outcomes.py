"""Each kind of outcome on each channel, with a fault in the sandbox."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from channel_dispatcher.metrics import OUTCOMES
from tablebell.outbox import Level, OutboxTable
from tablebell.people import DURABLE_CHANNELS, Channel
from tablebell.retry import RetryPolicy
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import ADDRESSES, Harness

EMAIL, SMS, PUSH, SLACK = DURABLE_CHANNELS


@pytest.mark.parametrize("channel", DURABLE_CHANNELS)
async def test_a_row_is_sent_once_and_every_step_is_recorded(harness: Harness, channel: Channel) -> None:
    (row_id,) = await harness.add(channel)
    async with harness.dispatching(channel):
        (row,) = await harness.finished(row_id)
    (message,) = harness.sandbox.messages(SandboxChannel(channel))
    assert "avolo per 4" in message.text
    assert (row["is_sent"], row["outcome"], row["attempt_count"], row["last_error"]) == (True, "SENT", 1, None)
    assert row["lease_token"] is None
    (attempt,) = await harness.attempts(row_id)
    assert (attempt["attempt"], attempt["channel_type"], attempt["outcome"]) == (1, channel, "SENT")
    assert attempt["started_at"] <= row["sent_at"]
    if channel is not SLACK:  # its webhooks respond with "ok" only
        assert row["provider_message_id"] == attempt["provider_message_id"]
        assert row["provider_message_id"] in (message.message_id, (message.message_id or "").strip("<>"))


PASSING = [
    (EMAIL, {"kind": "smtp", "code": 421}),
    (EMAIL, {"kind": "smtp", "code": 451}),
    (EMAIL, {"kind": "smtp", "code": 451, "at": "rcpt"}),
    (EMAIL, {"kind": "smtp", "code": 451, "at": "mail"}),
    (EMAIL, {"kind": "smtp", "code": 421, "at": "connect"}),
    (EMAIL, {"kind": "drop"}),
    (SMS, {"kind": "http", "status": 500}),
    (SMS, {"kind": "http", "status": 503}),
    (SMS, {"kind": "drop"}),
    (PUSH, {"kind": "http", "status": 503}),
    (PUSH, {"kind": "token", "status": 503}),
    (SLACK, {"kind": "http", "status": 500}),
]


@pytest.mark.parametrize(("channel", "fault"), PASSING, ids=str)
async def test_a_temporary_failure_is_retried_and_costs_no_attempt_while_no_other_row_is_answered(
    harness: Harness, channel: Channel, fault: dict[str, Any]
) -> None:
    await harness.sandbox.set_faults(SandboxChannel(channel), fault | {"count": 1})
    (row_id,) = await harness.add(channel)
    async with harness.dispatching(channel):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["attempt_count"]) == (True, 1)
    assert [each["outcome"] for each in await harness.attempts(row_id)] == ["DOWN", "SENT"]
    assert harness.sandbox.count(SandboxChannel(channel)).accepted == 1


RECIPIENTS = [
    {"code": 450},
    {"code": 452, "text": "4.2.2 Mailbox full"},
    {"code": 552, "text": "5.2.2 Mailbox full"},
]


@pytest.mark.parametrize("reply", RECIPIENTS, ids=str)
async def test_a_temporarily_unavailable_mailbox_is_retried_and_costs_an_attempt(
    harness: Harness, reply: dict[str, Any]
) -> None:
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "smtp", "at": "rcpt", "count": 1} | reply)
    (row_id,) = await harness.add(EMAIL)
    async with harness.dispatching(EMAIL):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["attempt_count"]) == (True, 2)
    assert [each["outcome"] for each in await harness.attempts(row_id)] == ["RETRY", "SENT"]
    assert await harness.pool.fetchval("SELECT count(*) FROM undeliverable_address") == 0


@pytest.mark.parametrize("channel", DURABLE_CHANNELS)
async def test_a_timeout_is_retried(harness: Harness, channel: Channel) -> None:
    await harness.sandbox.set_faults(SandboxChannel(channel), {"kind": "delay", "seconds": 5, "count": 1})
    (row_id,) = await harness.add(channel)
    async with harness.dispatching(channel, patience=0.3):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["attempt_count"]) == (True, 1)
    keys = harness.sandbox.keys(SandboxChannel(channel))
    assert len(keys) == 2, "the provider accepted both: a message without a response in time may arrive twice"
    assert len(set(keys)) == 1, "both attempts have the same key"


async def test_an_sms_that_twilio_accepted_despite_a_500_is_sent_twice_with_one_reference(harness: Harness) -> None:
    """Creating a message is not idempotent (Twilio's error 20500), and no header makes it so."""
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "http", "status": 500, "accept": True, "count": 1})
    (row_id,) = await harness.add(SMS)
    async with harness.dispatching(SMS):
        (row,) = await harness.finished(row_id)
    first, second = harness.sandbox.messages(SandboxChannel.SMS)
    assert first.message_id != second.message_id == row["provider_message_id"]
    assert first.key == second.key
    assert not [name for name in first.headers if "idempotency" in name]


async def test_a_row_that_is_postponed_repeatedly_is_overdue(harness: Harness) -> None:
    """A throttled row is always due in the future, so its due time does not show its age."""
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "http", "status": 429, "retry_after": 1})
    due = datetime.now(UTC) - timedelta(minutes=10)
    (row_id,) = await harness.add(SMS, next_attempt_at=due.isoformat())
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    (quiet,) = await harness.add(PUSH, next_attempt_at=tomorrow.isoformat())
    await harness.pool.execute("UPDATE notification_channel_send SET created_at = now() - interval '1 day'")

    async def is_put_off(times: int) -> bool:
        return [each["outcome"] for each in await harness.attempts(row_id)].count("THROTTLED") >= times

    async with harness.dispatching(SMS, PUSH):
        await eventually(lambda: is_put_off(2))
        delays = {each.channel: each for each in await OutboxTable(Level.CHANNEL_SEND).measure_delays(harness.service)}
    assert delays[SMS].lag_seconds < 300
    assert delays[SMS].overdue_seconds == pytest.approx(600, abs=60)
    assert delays[PUSH].overdue_seconds == 0, "it is first due at the end of the quiet hours"
    assert (await harness.row(quiet))["first_due_at"] is None


@pytest.mark.parametrize("channel", [SMS, PUSH, SLACK])
async def test_a_throttled_row_waits_for_retry_after_and_costs_no_attempt(harness: Harness, channel: Channel) -> None:
    fault = {"kind": "http", "status": 429, "retry_after": 1, "count": 2}
    await harness.sandbox.set_faults(SandboxChannel(channel), fault)
    (row_id,) = await harness.add(channel)
    async with harness.dispatching(channel, policy=RetryPolicy(2, (timedelta(0),))):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["attempt_count"]) == (True, 1)
    attempts = await harness.attempts(row_id)
    assert [each["outcome"] for each in attempts] == ["THROTTLED", "THROTTLED", "SENT"]
    for earlier, later in pairwise(attempts):
        assert later["started_at"] - earlier["finished_at"] >= timedelta(seconds=0.95)


FINAL = [
    (EMAIL, {"kind": "smtp", "code": 550, "at": "rcpt"}),
    (EMAIL, {"kind": "smtp", "code": 550, "at": "rcpt", "text": "no such user"}),
    (SMS, {"kind": "invalid_number"}),
    (SMS, {"kind": "http", "status": 400, "code": "21610"}),
    (PUSH, {"kind": "unregistered"}),
    (PUSH, {"kind": "http", "status": 403, "code": "SENDER_ID_MISMATCH"}),
]


@pytest.mark.parametrize(("channel", "fault"), FINAL, ids=str)
async def test_a_dead_address_is_final_at_once_and_marked(
    harness: Harness, channel: Channel, fault: dict[str, Any]
) -> None:
    address = ADDRESSES[channel].format(7)
    await harness.sandbox.set_faults(SandboxChannel(channel), fault)
    (row_id,) = await harness.add(channel, user_id=7, recipient=address)
    async with harness.dispatching(channel):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "UNDELIVERABLE", 1)
    (dead,) = await harness.pool.fetch("SELECT * FROM undeliverable_address")
    assert (dead["user_type"], dead["user_id"], dead["channel_type"], dead["address"]) == (
        "CUSTOMER",
        7,
        channel,
        address,
    )
    assert dead["reason"] == row["last_error"] != ""


REFUSED = [
    (EMAIL, {"kind": "smtp", "code": 550, "text": "5.7.1 refused as spam"}),
    (EMAIL, {"kind": "smtp", "code": 550, "text": "refused as spam"}),
    (EMAIL, {"kind": "smtp", "code": 554}),
    (EMAIL, {"kind": "smtp", "code": 552, "at": "mail", "text": "5.3.4 too big"}),
    (SMS, {"kind": "http", "status": 400, "code": "21617"}),
    (PUSH, {"kind": "http", "status": 400}),
    (SLACK, {"kind": "http", "status": 400}),
]


@pytest.mark.parametrize(("channel", "fault"), REFUSED, ids=str)
async def test_a_refused_message_is_final_and_marks_no_address(
    harness: Harness, channel: Channel, fault: dict[str, Any]
) -> None:
    await harness.sandbox.set_faults(SandboxChannel(channel), fault)
    (row_id,) = await harness.add(channel)
    async with harness.dispatching(channel):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "UNDELIVERABLE", 1)
    assert await harness.pool.fetchval("SELECT count(*) FROM undeliverable_address") == 0


async def test_a_row_for_a_dead_address_is_skipped_without_a_call(harness: Harness) -> None:
    (first,) = await harness.add(SMS, user_id=7, recipient="+393330000007")
    (second,) = await harness.add(
        SMS, user_id=7, recipient="+393330000007", next_attempt_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat()
    )
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "invalid_number"})
    async with harness.dispatching(SMS):
        await harness.finished(first)
        await harness.pool.execute(
            "UPDATE notification_channel_send SET next_attempt_at = created_at WHERE id = $1", second
        )
        (row,) = await harness.finished(second)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "SKIPPED", 0)
    assert row["last_error"] == "the address is known to be undeliverable"
    assert harness.sandbox.count(SandboxChannel.SMS).refused == 1


async def test_a_requeued_row_is_sent_again_and_its_success_deletes_the_mark(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "invalid_number", "count": 1})
    (row_id,) = await harness.add(SMS)
    async with harness.dispatching(SMS):
        await harness.finished(row_id)
        assert await harness.pool.fetchval("SELECT count(*) FROM undeliverable_address") == 1
        await OutboxTable(Level.CHANNEL_SEND).requeue(harness.pool, [row_id])
        (row,) = await harness.finished(row_id)
    assert row["outcome"] == "SENT"
    assert await harness.pool.fetchval("SELECT count(*) FROM undeliverable_address") == 0


async def test_the_last_attempt_finishes_the_row_with_the_reason(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "smtp", "code": 450, "at": "rcpt"})
    (row_id,) = await harness.add(EMAIL)
    async with harness.dispatching(EMAIL):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "EXHAUSTED", 5)
    assert "RCPT: 450" in row["last_error"]
    assert [each["attempt"] for each in await harness.attempts(row_id)] == [1, 2, 3, 4, 5]
    assert harness.sandbox.count(SandboxChannel.EMAIL).refused == 5


async def test_a_row_is_not_retried_after_its_not_after(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "smtp", "code": 450, "at": "rcpt"})
    in_a_minute = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    (row_id,) = await harness.add(EMAIL, not_after=in_a_minute)
    async with harness.dispatching(EMAIL, policy=RetryPolicy(5, (timedelta(minutes=2),))):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "EXPIRED", 1)
    assert "RCPT: 450" in row["last_error"]


async def test_an_expired_row_is_not_sent(harness: Harness) -> None:
    (row_id,) = await harness.add(SMS, not_after=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    async with harness.dispatching(SMS):
        (row,) = await harness.finished(row_id)
    assert (row["is_sent"], row["outcome"], row["attempt_count"]) == (False, "EXPIRED", 0)
    assert row["last_error"] == "too late to be sent"
    assert harness.sandbox.count(SandboxChannel.SMS).accepted == 0


async def test_an_unreadable_row_fails_alone(harness: Harness) -> None:
    (broken,) = await harness.add(SMS, message={"no": "text"})
    (whole,) = await harness.add(SMS)
    async with harness.dispatching(SMS, policy=RetryPolicy(2, (timedelta(milliseconds=100),))):
        rows = await harness.finished(broken, whole)
    assert [row["outcome"] for row in rows] == ["EXHAUSTED", "SENT"]
    assert "ValidationError" in rows[0]["last_error"]


async def test_a_row_without_an_address_is_final_and_marks_no_address(harness: Harness) -> None:
    (row_id,) = await harness.add(EMAIL, recipient=None)
    async with harness.dispatching(EMAIL):
        (row,) = await harness.finished(row_id)
    assert (row["outcome"], row["last_error"]) == ("UNDELIVERABLE", "not an e-mail address")
    assert await harness.pool.fetchval("SELECT count(*) FROM undeliverable_address") == 0


async def test_an_access_token_is_fetched_once_and_again_after_a_rejection(harness: Harness) -> None:
    ids = await harness.add(PUSH, 20)
    async with harness.dispatching(PUSH):
        await harness.finished(*ids)
        assert harness.sandbox.count(SandboxChannel.PUSH).refused == 0
        await harness.sandbox.set_faults(SandboxChannel.PUSH, {"kind": "http", "status": 401, "count": 1})
        (row,) = await harness.finished(*await harness.add(PUSH))
    assert (row["outcome"], row["attempt_count"]) == ("SENT", 1)


async def test_every_outcome_is_counted(harness: Harness) -> None:
    retried, throttled, gone = "+393330000901", "+393330000902", "+393330000903"
    await harness.sandbox.set_faults(
        SandboxChannel.SMS,
        {"kind": "http", "status": 503, "count": 1, "match": retried},
        {"kind": "http", "status": 429, "retry_after": 1, "count": 1, "match": throttled},
        {"kind": "invalid_number", "match": gone},
    )
    before = _outcomes(SMS)
    ids = [row for number in (retried, throttled, gone) for row in await harness.add(SMS, recipient=number)]
    ids += await harness.add(SMS, not_after=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    async with harness.dispatching(SMS):
        await harness.finished(*ids)
    counted = _outcomes(SMS) - before
    assert counted.pop("untried", 0) <= 3, "rows in flight when the channel was throttled"
    assert counted == {"sent": 2, "down": 1, "throttled": 1, "undeliverable": 1, "expired": 1}


def _outcomes(channel: Channel) -> Counter[str]:
    """The counter's values by outcome."""
    return Counter(
        {
            sample.labels["outcome"]: int(sample.value)
            for metric in OUTCOMES.collect()
            for sample in metric.samples
            if sample.name == "dispatcher_outcomes_total" and sample.labels["channel"] == channel
        }
    )
