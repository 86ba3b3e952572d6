"""A provider that is down or rejects our credentials costs no attempts."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from channel_dispatcher.breaker import State
from tablebell.people import DURABLE_CHANNELS, Channel
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness

EMAIL, SMS, PUSH, SLACK = DURABLE_CHANNELS


OUTAGE_SECONDS = 30


@pytest.mark.timeout(150)
async def test_an_smtp_outage_under_load_loses_no_row_costs_no_attempt_and_drains(harness: Harness) -> None:
    before = await harness.add(EMAIL, 400)
    async with harness.dispatching(EMAIL, SMS) as dispatchers:
        await eventually(lambda: harness.sandbox.count(SandboxChannel.EMAIL).accepted >= 50)
        await harness.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "refuse"})
        await eventually(lambda: dispatchers[EMAIL].breaker.state is State.OPEN)
        until = asyncio.get_running_loop().time() + OUTAGE_SECONDS
        texts = await harness.add(SMS, 50)
        rows = await harness.finished(*texts)
        assert {row["outcome"] for row in rows} == {"SENT"}, "the other channels continue"
        calls = await harness.pool.fetchval("SELECT count(*) FROM channel_send_attempt WHERE channel_type = 'EMAIL'")
        during: list[int] = []
        while asyncio.get_running_loop().time() < until:
            during += await harness.add(EMAIL, 5)
            await asyncio.sleep(0.5)
        later = await harness.pool.fetchval("SELECT count(*) FROM channel_send_attempt WHERE channel_type = 'EMAIL'")
        assert later - calls <= 3 * OUTAGE_SECONDS, "only probes while it is open, two per second here"
        await harness.sandbox.set_faults(SandboxChannel.EMAIL)
        rows = await harness.finished(*before, *during, within=60)
    assert {row["outcome"] for row in rows} == {"SENT"}
    assert {row["attempt_count"] for row in rows} == {1}
    assert len(set(harness.sandbox.keys(SandboxChannel.EMAIL))) == len(before) + len(during)
    outcomes = await harness.pool.fetch(
        "SELECT DISTINCT outcome FROM channel_send_attempt WHERE channel_type = 'EMAIL' ORDER BY 1"
    )
    assert {row["outcome"] for row in outcomes} == {"DOWN", "SENT", "UNTRIED"}


@pytest.mark.parametrize("channel", DURABLE_CHANNELS)
async def test_refused_connections_open_the_breaker_and_a_probe_closes_it(harness: Harness, channel: Channel) -> None:
    await harness.sandbox.set_faults(SandboxChannel(channel), {"kind": "refuse"})
    (row_id,) = await harness.add(channel)
    async with harness.dispatching(channel) as dispatchers:
        await eventually(lambda: dispatchers[channel].breaker.state is State.OPEN)
        await harness.sandbox.set_faults(SandboxChannel(channel))
        (row,) = await harness.finished(row_id)
        assert dispatchers[channel].breaker.state is State.CLOSED
    assert (row["outcome"], row["attempt_count"]) == ("SENT", 1)


REFUSALS: list[tuple[Channel, dict[str, Any]]] = [
    (EMAIL, {"kind": "smtp", "code": 535}),
    (SMS, {"kind": "http", "status": 401}),
    (PUSH, {"kind": "http", "status": 401}),
    (PUSH, {"kind": "http", "status": 403, "code": "PERMISSION_DENIED"}),
    (PUSH, {"kind": "token", "status": 400}),
    (SLACK, {"kind": "http", "status": 403}),
]


@pytest.mark.parametrize(("channel", "fault"), REFUSALS, ids=str)
async def test_bad_credentials_open_the_breaker_log_critical_and_cost_no_attempt(
    harness: Harness, channel: Channel, fault: dict[str, Any]
) -> None:
    login = {"smtp_url": f"smtp://user:secret@127.0.0.1:{harness.sandbox.smtp_port}"} if channel is EMAIL else {}
    await harness.sandbox.set_faults(SandboxChannel(channel), fault)
    ids = await harness.add(channel, 3)
    with capture_logs() as logs:
        async with harness.dispatching(channel, changes=login) as dispatchers:
            await eventually(lambda: dispatchers[channel].breaker.state is State.OPEN)
            assert {(await harness.row(row_id))["is_sent"] for row_id in ids} == {None}
            await harness.sandbox.set_faults(SandboxChannel(channel))
            rows = await harness.finished(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}
    loud = [line for line in logs if line["log_level"] == "critical"]
    assert loud
    assert {line["event"] for line in loud} == {"provider_refuses_us"}


async def test_a_channel_ramps_up_after_an_outage(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "refuse"})
    await harness.add(SMS, 200)
    async with harness.dispatching(SMS) as dispatchers:
        await eventually(lambda: dispatchers[SMS].breaker.state is State.OPEN)
        await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.05})
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted > 0)
        seen = []
        while harness.sandbox.count(SandboxChannel.SMS).accepted < 100:
            seen.append(len(dispatchers[SMS].in_flight))
            await asyncio.sleep(0.01)
    assert max(seen[:10]) <= 2, "one or two at first"
    assert max(seen) > 16, "and the full allowance in the end"


async def test_the_channel_waits_if_the_provider_throttles_all_recipients(harness: Harness) -> None:
    await harness.sandbox.set_faults(
        SandboxChannel.SMS, {"kind": "http", "status": 429, "retry_after": 2, "for_seconds": 1}
    )
    ids = await harness.add(SMS, 100)
    async with harness.dispatching(SMS, changes={"sms_concurrency": 4}) as dispatchers:
        await eventually(lambda: dispatchers[SMS].breaker.state is State.THROTTLED)
        asked = harness.sandbox.count(SandboxChannel.SMS).refused
        assert asked <= 8
        await asyncio.sleep(1)
        assert harness.sandbox.count(SandboxChannel.SMS).refused <= 8
        rows = await harness.finished(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}


@pytest.mark.timeout(60)
async def test_a_postgres_restart_neither_loses_nor_repeats_messages(harness: Harness, servers: Any) -> None:
    ids = await harness.add(SMS, 300)
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.03})
    async with harness.dispatching(SMS):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted >= 50)
        await servers.postgres("restart")
        rows = await harness.finished(*ids, within=40)
    assert {row["outcome"] for row in rows} == {"SENT"}
    keys = harness.sandbox.keys(SandboxChannel.SMS)
    assert len(keys) == len(set(keys)) == 300
