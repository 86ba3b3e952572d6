"""A burst of one restaurant does not delay others, and a channel stays within its limits."""

import asyncio

import pytest

from tablebell.people import Channel
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness

SMS = Channel.SMS


@pytest.mark.timeout(60)
async def test_a_single_send_overtakes_another_restaurants_burst_of_5000(harness: Harness) -> None:
    await harness.add(SMS, 5000, restaurant_id=10)
    async with harness.dispatching(SMS, poll=0.02):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted >= 100)
        sent_before = harness.sandbox.count(SandboxChannel.SMS).accepted
        (single,) = await harness.add(SMS, restaurant_id=11)
        await harness.finished(single)
        sent_after = harness.sandbox.count(SandboxChannel.SMS).accepted
    assert sent_after - sent_before < 500, "it waited for rows in flight, not for the burst"


async def test_concurrent_sends_stay_within_the_limit(harness: Harness) -> None:
    await harness.sandbox.set_faults(SandboxChannel.SMS, {"kind": "delay", "seconds": 0.3})
    ids = await harness.add(SMS, 9)
    async with harness.dispatching(SMS, changes={"sms_concurrency": 3}):
        await eventually(lambda: harness.sandbox.count(SandboxChannel.SMS).accepted > 0)
        await asyncio.sleep(0.1)
        assert harness.sandbox.count(SandboxChannel.SMS).accepted == 3
        await harness.finished(*ids)


async def test_sends_per_second_stay_within_the_limit(harness: Harness) -> None:
    ids = await harness.add(SMS, 21)
    async with harness.dispatching(SMS, changes={"sms_per_second": 20}):
        await harness.finished(*ids)
    times = [message.received_at_epoch for message in harness.sandbox.messages(SandboxChannel.SMS)]
    assert max(times) - min(times) >= 0.95
