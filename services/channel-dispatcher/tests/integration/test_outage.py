"""A provider that is down, or does not let us in, costs nothing."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from channel_dispatcher.breaker import State
from tablebell.people import DURABLE_CHANNELS, Channel
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .rig import Rig

EMAIL, SMS, PUSH, SLACK = DURABLE_CHANNELS


OUTAGE_SECONDS = 30


@pytest.mark.timeout(150)
async def test_an_outage_of_smtp_under_load_loses_nothing_burns_nothing_and_drains(rig: Rig) -> None:
    before = await rig.add(EMAIL, 400)
    async with rig.dispatching(EMAIL, SMS) as dispatchers:
        await eventually(lambda: rig.sandbox.count(SandboxChannel.EMAIL).accepted >= 50)
        await rig.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "refuse"})
        await eventually(lambda: dispatchers[EMAIL].breaker.state is State.OPEN)
        until = asyncio.get_running_loop().time() + OUTAGE_SECONDS
        texts = await rig.add(SMS, 50)
        rows = await rig.settled(*texts)
        assert {row["outcome"] for row in rows} == {"SENT"}, "the other channels go on"
        calls = await rig.pool.fetchval("SELECT count(*) FROM channel_send_attempt WHERE channel_type = 'EMAIL'")
        during: list[int] = []
        while asyncio.get_running_loop().time() < until:
            during += await rig.add(EMAIL, 5)
            await asyncio.sleep(0.5)
        later = await rig.pool.fetchval("SELECT count(*) FROM channel_send_attempt WHERE channel_type = 'EMAIL'")
        assert later - calls <= 3 * OUTAGE_SECONDS, "only probes while it is open, of which there are two a second here"
        await rig.sandbox.set_faults(SandboxChannel.EMAIL)
        rows = await rig.settled(*before, *during, within=60)
    assert {row["outcome"] for row in rows} == {"SENT"}
    assert {row["attempt_count"] for row in rows} == {1}
    assert len(set(rig.sandbox.keys(SandboxChannel.EMAIL))) == len(before) + len(during)
    outcomes = await rig.pool.fetch(
        "SELECT DISTINCT outcome FROM channel_send_attempt WHERE channel_type = 'EMAIL' ORDER BY 1"
    )
    assert {row["outcome"] for row in outcomes} == {"DOWN", "SENT", "UNTRIED"}


@pytest.mark.parametrize("channel", DURABLE_CHANNELS)
async def test_nobody_there_opens_the_breaker_and_a_probe_closes_it(rig: Rig, channel: Channel) -> None:
    await rig.sandbox.set_faults(SandboxChannel(channel), {"kind": "refuse"})
    (row_id,) = await rig.add(channel)
    async with rig.dispatching(channel) as dispatchers:
        await eventually(lambda: dispatchers[channel].breaker.state is State.OPEN)
        await rig.sandbox.set_faults(SandboxChannel(channel))
        (row,) = await rig.settled(row_id)
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
async def test_bad_credentials_open_the_breaker_loudly_and_burn_nothing(
    rig: Rig, channel: Channel, fault: dict[str, Any]
) -> None:
    login = {"smtp_url": f"smtp://user:secret@127.0.0.1:{rig.sandbox.smtp_port}"} if channel is EMAIL else {}
    await rig.sandbox.set_faults(SandboxChannel(channel), fault)
    ids = await rig.add(channel, 3)
    with capture_logs() as logs:
        async with rig.dispatching(channel, changes=login) as dispatchers:
            await eventually(lambda: dispatchers[channel].breaker.state is State.OPEN)
            assert {(await rig.row(row_id))["is_sent"] for row_id in ids} == {None}
            await rig.sandbox.set_faults(SandboxChannel(channel))
            rows = await rig.settled(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}
    loud = [line for line in logs if line["log_level"] == "critical"]
    assert loud
    assert {line["event"] for line in loud} == {"provider_refuses_us"}


async def test_a_channel_that_comes_back_is_ramped_up(rig: Rig) -> None:
    await rig.sandbox.set_faults(SandboxChannel.SMS, {"kind": "refuse"})
    await rig.add(SMS, 200)
    async with rig.dispatching(SMS) as dispatchers:
        await eventually(lambda: dispatchers[SMS].breaker.state is State.OPEN)
        await rig.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.05})
        await eventually(lambda: rig.sandbox.count(SandboxChannel.SMS).accepted > 0)
        seen = []
        while rig.sandbox.count(SandboxChannel.SMS).accepted < 100:
            seen.append(len(dispatchers[SMS].in_hand))
            await asyncio.sleep(0.01)
    assert max(seen[:10]) <= 2, "one or two at first"
    assert max(seen) > 16, "and everything in the end"


async def test_when_the_provider_throttles_everybody_the_whole_channel_waits(rig: Rig) -> None:
    await rig.sandbox.set_faults(
        SandboxChannel.SMS, {"kind": "http", "status": 429, "retry_after": 2, "for_seconds": 1}
    )
    ids = await rig.add(SMS, 100)
    async with rig.dispatching(SMS, changes={"sms_concurrency": 4}) as dispatchers:
        await eventually(lambda: dispatchers[SMS].breaker.state is State.THROTTLED)
        asked = rig.sandbox.count(SandboxChannel.SMS).refused
        assert asked <= 8
        await asyncio.sleep(1)
        assert rig.sandbox.count(SandboxChannel.SMS).refused <= 8
        rows = await rig.settled(*ids)
    assert {(row["outcome"], row["attempt_count"]) for row in rows} == {("SENT", 1)}


@pytest.mark.timeout(60)
async def test_a_postgres_restart_in_the_middle_neither_loses_nor_repeats_anything(rig: Rig, servers: Any) -> None:
    ids = await rig.add(SMS, 300)
    await rig.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.03})
    async with rig.dispatching(SMS):
        await eventually(lambda: rig.sandbox.count(SandboxChannel.SMS).accepted >= 50)
        await servers.postgres("restart")
        rows = await rig.settled(*ids, within=40)
    assert {row["outcome"] for row in rows} == {"SENT"}
    keys = rig.sandbox.keys(SandboxChannel.SMS)
    assert len(keys) == len(set(keys)) == 300
