"""Three dispatchers and random kill -9: no row is lost, and only rows in flight at a kill are sent twice."""

import asyncio
import random
import sys
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from tablebell.people import Channel
from tablebell.testing import Database
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness
from .processes import DispatcherProcess, running, settings_for

WAVES = 2
KILLS_PER_WAVE = 2
KILLS = WAVES * KILLS_PER_WAVE
CONCURRENCY = 8


@pytest.mark.timeout(120)
async def test_with_three_dispatchers_and_random_kills_only_rows_in_flight_are_sent_twice(
    harness: Harness, database: Database
) -> None:
    await harness.sandbox.set_faults(SandboxChannel.EMAIL, {"kind": "delay", "seconds": 0.1})
    ids = [
        row for restaurant in (10, 11, 12) for row in await harness.add(Channel.EMAIL, 500, restaurant_id=restaurant)
    ]
    environment = settings_for(database, harness.sandbox, harness.credentials) | {
        "LEASE_SECONDS": "5",  # long enough to be renewed on a busy machine
        "POLL_SECONDS": "0.2",
        "MAX_ATTEMPTS": "20",
        "EMAIL_CONCURRENCY": str(CONCURRENCY),
    }
    async with AsyncExitStack() as resources:

        async def start(count: int) -> list[DispatcherProcess]:
            entering = (resources.enter_async_context(running(environment)) for _ in range(count))
            return list(await asyncio.gather(*entering))

        dispatchers = await start(3)
        for _ in range(WAVES):
            random.shuffle(dispatchers)
            for victim in (dispatchers.pop() for _ in range(KILLS_PER_WAVE)):
                await asyncio.sleep(random.uniform(0.1, 0.6))
                await victim.kill()
            dispatchers += await start(KILLS_PER_WAVE)
        rows = await harness.finished(*ids, within=60)

    assert {row["outcome"] for row in rows} == {"SENT"}, "nothing is lost"
    seen = Counter(harness.sandbox.keys(SandboxChannel.EMAIL))
    assert len(seen) == len(ids)
    twice = {key.strip("<>") for key, times in seen.items() if times > 1}
    unknown = await harness.pool.fetch(
        "SELECT DISTINCT s.provider_message_id FROM channel_send_attempt AS a "
        "JOIN notification_channel_send AS s ON s.id = a.channel_send_id WHERE a.outcome IS NULL"
    )
    in_flight = {row["provider_message_id"] for row in unknown}
    assert in_flight, "no row was in flight at a kill: the test shows nothing"
    assert twice <= in_flight, "every duplicate has an unfinished attempt"
    sys.stdout.write(f"{KILLS} kills, {len(in_flight)} rows in hand at a kill, {len(twice)} sent twice\n")
    # One process may have this many sends without a recorded result: its connections, and the results of a moment.
    assert len(twice) <= KILLS * 3 * CONCURRENCY
    assert sum(seen.values()) - len(ids) <= KILLS * 3 * CONCURRENCY
