"""A provider that fails for all rows costs no attempts. A row that fails while others are answered costs its own
attempts, and delays no other row."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from channel_dispatcher.breaker import State
from tablebell.people import DURABLE_CHANNELS, Channel
from tablebell.retry import RetryPolicy
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness

EMAIL, SMS, PUSH, SLACK = DURABLE_CHANNELS
# Five attempts and the pauses between them take 0.5 s, and 1.8 s if each times out.
SOON = RetryPolicy(5, (timedelta(milliseconds=100),))
PATIENCE = 0.25
OUTAGE_SECONDS = 2.5

OUTAGES: list[tuple[Channel, dict[str, Any]]] = [
    (SMS, {"kind": "http", "status": 503}),
    (SMS, {"kind": "hang"}),
    (SMS, {"kind": "drop"}),
    (PUSH, {"kind": "http", "status": 500}),
    (PUSH, {"kind": "hang"}),
    (SLACK, {"kind": "http", "status": 503}),
    (SLACK, {"kind": "hang"}),
    (EMAIL, {"kind": "smtp", "code": 451}),
    (EMAIL, {"kind": "smtp", "code": 451, "at": "rcpt"}),
    (EMAIL, {"kind": "smtp", "code": 421, "at": "mail"}),
    (EMAIL, {"kind": "smtp", "code": 421, "at": "connect"}),
    (EMAIL, {"kind": "hang", "at": "connect"}),
    (EMAIL, {"kind": "hang", "at": "auth"}),
    (EMAIL, {"kind": "hang", "at": "mail"}),
    (EMAIL, {"kind": "hang", "at": "rcpt"}),
    (EMAIL, {"kind": "hang", "at": "data"}),
    (EMAIL, {"kind": "drop"}),
]


@pytest.mark.parametrize(("channel", "fault"), OUTAGES, ids=str)
async def test_an_outage_of_any_form_exhausts_no_row_and_all_are_sent_afterwards(
    harness: Harness, channel: Channel, fault: dict[str, Any]
) -> None:
    login = {"smtp_url": f"smtp://user:secret@127.0.0.1:{harness.sandbox.smtp_port}"} if channel is EMAIL else {}
    await harness.sandbox.set_faults(SandboxChannel(channel), fault)
    ids = await harness.add(channel, 40)
    async with harness.dispatching(channel, policy=SOON, patience=PATIENCE, changes=login) as dispatchers:
        await eventually(lambda: dispatchers[channel].breaker.state is State.OPEN)
        await asyncio.sleep(OUTAGE_SECONDS)
        assert dispatchers[channel].breaker.state is not State.CLOSED
        await harness.sandbox.set_faults(SandboxChannel(channel))
        rows = await harness.finished(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}
    calls = "SELECT count(*) FROM channel_send_attempt WHERE outcome = 'DOWN' GROUP BY channel_send_id ORDER BY 1 DESC"
    assert await harness.pool.fetchval(calls) <= 2, "the probes use different rows"


ALONE = [each for each in OUTAGES if each[1]["kind"] != "drop" and each[1].get("at") in (None, "data")]


@pytest.mark.parametrize(("channel", "fault"), ALONE, ids=str)
async def test_a_single_message_survives_an_outage(harness: Harness, channel: Channel, fault: dict[str, Any]) -> None:
    async with harness.dispatching(channel, policy=SOON, patience=PATIENCE):
        await harness.finished(*await harness.add(channel, 20))
        await harness.sandbox.set_faults(SandboxChannel(channel), fault)
        (row_id,) = await harness.add(channel)
        await asyncio.sleep(OUTAGE_SECONDS)
        await harness.sandbox.set_faults(SandboxChannel(channel))
        (row,) = await harness.finished(row_id)
    assert (row["outcome"], row["attempt_count"]) == ("SENT", 1)
    assert [each["outcome"] for each in await harness.attempts(row_id)][:3] == ["DOWN"] * 3


@pytest.mark.parametrize(("channel", "fault"), OUTAGES[:2], ids=str)
async def test_two_dispatchers_exhaust_no_row_during_an_outage(
    harness: Harness, channel: Channel, fault: dict[str, Any]
) -> None:
    await harness.sandbox.set_faults(SandboxChannel(channel), fault)
    ids = await harness.add(channel, 30)
    async with AsyncExitStack() as both:
        for _ in range(2):
            await both.enter_async_context(harness.dispatching(channel, policy=SOON, patience=PATIENCE))
        await asyncio.sleep(OUTAGE_SECONDS)
        await harness.sandbox.set_faults(SandboxChannel(channel))
        rows = await harness.finished(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}


async def test_an_outage_under_load_costs_no_attempts(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.05})
    ids = await harness.add(SMS, 300)
    async with harness.dispatching(SMS, policy=SOON) as dispatchers:
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted >= 50)
        await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "http", "status": 503})
        await eventually(lambda: dispatchers[SMS].breaker.state is State.OPEN)
        await asyncio.sleep(OUTAGE_SECONDS)
        await harness.sandbox.set_faults(SandboxChannel.SMS)
        rows = await harness.finished(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}


async def test_a_provider_that_answers_once_and_goes_down_again_costs_no_attempts(harness: Harness) -> None:
    """Most rows in flight fail after the breaker has opened: these failures are part of the outage."""
    down = {"kind": "http", "status": 503, "match": "+3933300"}
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.05}, down)
    ids = await harness.add(SMS, 16)
    async with harness.dispatching(SMS, policy=SOON) as dispatchers:
        await eventually(lambda: dispatchers[SMS].breaker.state is State.OPEN)
        await harness.finished(*await harness.add(SMS, recipient="+393394444444"))
        await asyncio.sleep(OUTAGE_SECONDS)
        await harness.sandbox.set_faults(SandboxChannel.SMS)
        rows = await harness.finished(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}


BAD = "+393339999999"
OWN_FAILURES: list[dict[str, Any]] = [
    {"kind": "http", "status": 500, "match": BAD},
    {"kind": "http", "status": 400, "code": "21612", "match": BAD},
    {"kind": "drop", "match": BAD},
    {"kind": "hang", "match": BAD},
]


@pytest.mark.parametrize("fault", OWN_FAILURES, ids=str)
async def test_a_row_that_fails_while_others_are_answered_uses_up_its_attempts(
    harness: Harness, fault: dict[str, Any]
) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, fault)
    (bad,) = await harness.add(SMS, recipient=BAD)
    good: list[int] = []
    async with harness.dispatching(SMS, policy=SOON, patience=PATIENCE) as dispatchers:
        while (await harness.row(bad))["is_sent"] is None:
            good += await harness.add(SMS)
            await asyncio.sleep(0.1)
            assert dispatchers[SMS].breaker.state is State.CLOSED
        rows = await harness.finished(*good)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}
    row = await harness.row(bad)
    assert (row["outcome"], row["attempt_count"]) == ("EXHAUSTED", 5)
    outcomes = [each["outcome"] for each in await harness.attempts(bad)]
    assert outcomes[0] == "DOWN"
    # On a busy machine it may fail twice before another row is answered: that is not charged either.
    assert [each for each in outcomes if each != "DOWN"] == ["RETRY", "RETRY", "RETRY", "RETRY", "EXHAUSTED"]


@pytest.mark.parametrize(
    ("code", "status", "outcome"),
    [("SENDER_ID_MISMATCH", 403, "UNDELIVERABLE"), ("THIRD_PARTY_AUTH_ERROR", 401, "EXHAUSTED")],
)
async def test_five_bad_devices_do_not_stop_push_for_others(
    harness: Harness, code: str, status: int, outcome: str
) -> None:
    fault = {"kind": "http", "status": status, "code": code, "match": "bad"}
    await harness.sandbox.set_faults(SandboxChannel.PUSH, fault)
    bad = [
        row for number in range(5) for row in await harness.add(PUSH, recipient=f"bad-{number}", restaurant_id=number)
    ]
    sent: list[int] = []
    async with harness.dispatching(PUSH, policy=SOON):
        async with asyncio.timeout(30):
            while None in [(await harness.row(row_id))["is_sent"] for row_id in bad]:
                sent += await harness.add(PUSH, restaurant_id=99)
                await harness.finished(sent[-1], within=3)
        rows = await harness.finished(*bad)
    assert {row["outcome"] for row in rows} == {outcome}
    assert {(await harness.row(row_id))["outcome"] for row_id in sent} == {"SENT"}


async def test_a_row_that_always_fails_does_not_keep_the_channel_closed_after_an_outage(harness: Harness) -> None:
    """As a probe, it would look as if the outage continued."""
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "http", "status": 503})
    bad = [
        row
        for number in range(3)
        for row in await harness.add(SMS, recipient=f"{BAD[:-1]}{number}", restaurant_id=number)
    ]
    good = await harness.add(SMS, 5, restaurant_id=99)
    async with harness.dispatching(SMS, policy=SOON) as dispatchers:
        await eventually(lambda: dispatchers[SMS].breaker.state is State.OPEN)
        await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "http", "status": 503, "match": BAD[:-1]})
        rows = await harness.finished(*good, within=6)
        assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}
        later = await harness.add(SMS, 5, restaurant_id=99)
        await harness.finished(*later, within=6)
    assert {(await harness.row(row_id))["outcome"] for row_id in bad} <= {None, "EXHAUSTED"}


async def test_relay_denied_marks_no_address_and_is_critical_if_it_affects_all(harness: Harness) -> None:
    reply = {"kind": "smtp", "code": 550, "at": "rcpt", "text": "relay not permitted"}
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, reply)
    ids = await harness.add(EMAIL, 5)
    with capture_logs() as logs:
        async with harness.dispatching(EMAIL, policy=SOON) as dispatchers:
            await eventually(lambda: dispatchers[EMAIL].breaker.state is State.OPEN)
            await asyncio.sleep(2)
            await harness.sandbox.set_faults(SandboxChannel.EMAIL)
            rows = await harness.finished(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}
    assert "provider_refuses_us" in {line["event"] for line in logs}
    assert await harness.pool.fetchval("SELECT count(*) FROM undeliverable_address") == 0


async def test_a_row_without_a_valid_address_does_not_affect_the_breaker(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "refuse"})
    async with harness.dispatching(EMAIL) as dispatchers:
        await harness.add(EMAIL, 3)
        await eventually(lambda: dispatchers[EMAIL].breaker.state is State.OPEN)
        ids = await harness.add(EMAIL, 5, recipient="nobody")
        states = set()
        while None in [(await harness.row(row_id))["is_sent"] for row_id in ids]:
            states.add(dispatchers[EMAIL].breaker.state)
    assert states == {State.OPEN, State.HALF_OPEN}


async def test_one_throttled_device_does_not_throttle_the_channel(harness: Harness) -> None:
    fault = {"kind": "http", "status": 429, "retry_after": 30, "match": "busy"}
    await harness.sandbox.set_faults(SandboxChannel.PUSH, fault)
    await harness.add(PUSH, 5, recipient="busy-device")
    async with harness.dispatching(PUSH) as dispatchers:
        await eventually(lambda: harness.sandbox.count(SandboxChannel.PUSH).refused == 5)
        assert dispatchers[PUSH].breaker.state is State.CLOSED
        rows = await harness.finished(*await harness.add(PUSH, 5))
    assert {row["outcome"] for row in rows} == {"SENT"}
