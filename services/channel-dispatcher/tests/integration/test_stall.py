"""A dispatcher that stalled or lost the database sends no row that another may have sent."""

import asyncio
import time
from collections import Counter
from datetime import timedelta

import pytest

from channel_dispatcher.breaker import Breaker
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.dispatcher import Dispatcher
from channel_dispatcher.failure_attribution import FailureAttribution
from channel_dispatcher.leases import LeaseKeeper
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import SendOutcome, Sent
from channel_dispatcher.provider_health import ProviderHealth
from channel_dispatcher.recorder import Recorder
from tablebell.lifecycle import Stop
from tablebell.people import Channel
from tablebell.testing import Database, Servers, eventually
from tablebell.wakeups import Wakeup
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import SOON, Harness
from .processes import running, settings_for

EMAIL, SMS = Channel.EMAIL, Channel.SMS
WARM_UP = 100
MAILS = 8


async def leased_rows(harness: Harness) -> int:
    held = "SELECT count(*) FROM notification_channel_send WHERE is_sent IS NULL AND lease_until > now()"
    return int(await harness.pool.fetchval(held))


@pytest.mark.timeout(120)
async def test_a_dispatcher_stalled_beyond_its_lease_sends_none_of_its_rows(
    harness: Harness, database: Database
) -> None:
    environment = settings_for(database, harness.sandbox, harness.credentials) | {
        "LEASE_SECONDS": "3",
        "POLL_SECONDS": "0.2",
        "EMAIL_CONCURRENCY": "2",
    }
    async with running(environment) as stalled:
        # After some fast sends it claims far ahead of its two connections.
        await harness.finished(*await harness.add(EMAIL, WARM_UP))
        slow = [{"kind": "delay", "seconds": 2, "match": f"anna{WARM_UP + n}@"} for n in (1, 2)]
        await harness.sandbox.set_faults(SandboxChannel.EMAIL, *slow)
        ids = await harness.add(EMAIL, 2 + MAILS)
        await eventually(lambda: harness.sandbox.count(SandboxChannel.EMAIL).accepted == WARM_UP + 2)
        assert await leased_rows(harness) == 2 + MAILS, "two in slow calls, the others queued"
        stalled.pause()
        try:
            async with running(environment):
                rows = await harness.finished(*ids)
                stalled.resume()
                await asyncio.sleep(2)
        finally:
            stalled.resume()
    assert {row["outcome"] for row in rows} == {"SENT"}
    to = Counter(message.to[0] for message in harness.sandbox.messages(SandboxChannel.EMAIL))
    mails = {f"anna{WARM_UP + n}@mail.example": to[f"anna{WARM_UP + n}@mail.example"] for n in range(3, 3 + MAILS)}
    assert mails == dict.fromkeys(mails, 1), f"{MAILS} mails, {MAILS} arrivals"


class Counting:
    """A provider that accepts every message at once."""

    def __init__(self) -> None:
        self.taken: Counter[int] = Counter()

    async def send(self, delivery: Delivery) -> SendOutcome:
        self.taken[delivery.id] += 1
        return Sent()


def dispatcher(harness: Harness, sender: Counting, recorder: Recorder, stop: Stop, lease: timedelta) -> Dispatcher:
    attribution = FailureAttribution(timedelta(seconds=0.3), timedelta(seconds=0.5))
    return Dispatcher(
        SMS,
        sender,
        pool=harness.service,
        recorder=recorder,
        health=ProviderHealth(SMS, Breaker(time.monotonic), attribution),
        limits=Limits(4),
        policy=SOON,
        wakeup=Wakeup(),
        lease=lease,
        batch_size=500,
        stop=stop,
    )


@pytest.mark.timeout(90)
async def test_rows_with_results_waiting_for_the_database_are_not_sent_again(
    harness: Harness, servers: Servers
) -> None:
    lease = timedelta(seconds=3)
    provider, stop = Counting(), Stop()
    holding, idle = harness.recorder(), harness.recorder()
    holder, other = (dispatcher(harness, provider, each, stop, lease) for each in (holding, idle))
    # The other has been in contact with the database for long enough to take over expired leases.
    await other.run_once()
    await asyncio.sleep(lease.total_seconds() / 6)
    (row_id,) = await harness.add(SMS)
    working = asyncio.create_task(holder.run(0.05))
    await eventually(lambda: provider.taken[row_id] == 1)
    await servers.postgres("stop")
    stopped = time.monotonic()
    assert [each.id for each in holding.unrecorded] == [row_id], "the result could not be written"
    with pytest.raises(OSError):  # noqa: PT011 - connection refused, at every poll
        await other.run_once()
    await asyncio.sleep(max(0.0, lease.total_seconds() + 1 - (time.monotonic() - stopped)))
    await servers.postgres("start")

    assert not await leased_rows(harness), "the lease ended while the database was down"
    await other.run_once()
    assert other.in_flight == [], "the first claim after an outage takes over no lease"
    keeper = LeaseKeeper(harness.service, [holder], holding, lease)
    await keeper.run_once()
    assert await leased_rows(harness) == 1, "leases of unrecorded results are extended, too"
    await asyncio.sleep(lease.total_seconds() / 3)
    await other.run_once()
    assert other.in_flight == []
    recording = asyncio.create_task(holding.run())
    (row,) = await harness.finished(row_id)
    stop.request()
    holding.finish()
    await asyncio.gather(working, recording)
    assert (row["outcome"], row["attempt_count"], provider.taken[row_id]) == ("SENT", 1, 1)


async def test_a_dispatcher_that_starts_later_takes_over_rows_of_a_crashed_one(harness: Harness) -> None:
    lease = timedelta(seconds=1)
    (row_id,) = await harness.add(SMS)
    gone = dispatcher(harness, Counting(), harness.recorder(), Stop(), lease)
    await gone.run_once()
    assert len(gone.in_flight) == 1
    await asyncio.sleep(1.1)
    async with harness.dispatching(SMS, lease=1, poll=60):
        (row,) = await harness.finished(row_id, within=5)
    assert (row["outcome"], row["attempt_count"]) == ("SENT", 2)


async def test_unrecorded_results_count_against_the_capacity(harness: Harness) -> None:
    """A provider that is faster than the recorder must not pile up leases that nobody can renew in time."""
    provider, stop, recorder = Counting(), Stop(), harness.recorder()
    sending = dispatcher(harness, provider, recorder, stop, timedelta(seconds=30))
    largest_window = Limits(4).window(4, 0.0)
    ids = await harness.add(SMS, 3 * largest_window)
    working = asyncio.create_task(sending.run(0.05))
    await eventually(lambda: provider.taken.total() > 0)
    await asyncio.sleep(1)
    assert provider.taken.total() <= largest_window, "nothing has been recorded yet"
    recording = asyncio.create_task(recorder.run())
    rows = await harness.finished(*ids)
    stop.request()
    recorder.finish()
    await asyncio.gather(working, recording)
    assert {row["outcome"] for row in rows} == {"SENT"}
    assert set(provider.taken.values()) == {1}
