"""Several relays that start, stop and crash: everything arrives, in order."""

import asyncio
import random

import pytest
from pydantic import SecretStr

from tablebell.postgres import Pool
from tablebell.testing import Database, eventually

from .running import relay_processes, running_relay
from .source import Source, event
from .stream import Stream

AGGREGATES = 100
VERSIONS = 20
BATCH = 50
IN_ORDER = {aggregate: list(range(1, VERSIONS + 1)) for aggregate in range(AGGREGATES)}


async def commit_all(source: Source, seconds: float) -> None:
    """Commit 2,000 events over this time."""
    for version in range(1, VERSIONS + 1):
        await source.commit(*(event(aggregate, version) for aggregate in range(AGGREGATES)))
        await asyncio.sleep(seconds / VERSIONS)


@pytest.mark.timeout(120)
async def test_relays_killed_at_random_lose_nothing_and_keep_the_order(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    chance, kills = random.Random(4), 0
    async with relay_processes(3, database, amqp_url, BATCH_SIZE=str(BATCH)) as relays:
        committing = asyncio.create_task(commit_all(source, seconds=8))
        while not committing.done():
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            victim = chance.choice(relays)
            await victim.kill()
            await victim.start()
            kills += 1
        await committing
        # Shorter than a lease: abandoned leases are released without waiting for their expiry.
        await eventually(lambda: source.all_are("PUBLISHED"), within=25)
        await eventually(
            lambda: len(set(stream.arrivals)) == AGGREGATES * VERSIONS
        )  # the last messages may not have arrived yet
    assert kills >= 8
    assert stream.first_arrivals() == IN_ORDER
    assert stream.count_duplicates() <= kills * 2 * BATCH, "more duplicates than events in flight"


@pytest.mark.timeout(120)
async def test_relays_frozen_beyond_their_lease_lose_nothing_and_keep_the_order(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    stalls = 3
    async with relay_processes(2, database, amqp_url, BATCH_SIZE=str(BATCH), LEASE_SECONDS="2") as relays:
        committing = asyncio.create_task(commit_all(source, seconds=12))
        for number in range(stalls):
            await asyncio.sleep(1)
            relays[number % 2].freeze()
            await asyncio.sleep(3)
            relays[number % 2].thaw()
        await committing
        await eventually(lambda: source.all_are("PUBLISHED"), within=25)
        await eventually(lambda: len(set(stream.arrivals)) == AGGREGATES * VERSIONS)
    assert stream.first_arrivals() == IN_ORDER
    assert stream.count_duplicates() <= stalls * 2 * BATCH, "more duplicates than events in flight"


async def test_two_relays_publish_nothing_twice_and_keep_the_order(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with (
        running_relay(database, amqp_url, batch_size=BATCH),
        running_relay(database, amqp_url, batch_size=BATCH),
    ):
        await commit_all(source, seconds=1)
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert stream.first_arrivals() == IN_ORDER
    assert stream.count_duplicates() == 0


async def test_relays_that_join_and_leave_under_load_publish_nothing_twice(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with running_relay(database, amqp_url, batch_size=BATCH):
        committing = asyncio.create_task(commit_all(source, seconds=3))
        for _ in range(4):
            async with running_relay(database, amqp_url, batch_size=BATCH):
                await asyncio.sleep(0.5)
        await committing
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert stream.first_arrivals() == IN_ORDER
    assert stream.count_duplicates() == 0


async def test_relays_that_lose_their_locks_while_publishing_keep_the_order(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    """One relay still publishes its batch after the other has taken over the partition."""
    async with (
        running_relay(database, amqp_url, batch_size=BATCH),
        running_relay(database, amqp_url, batch_size=BATCH),
    ):
        committing = asyncio.create_task(commit_all(source, seconds=4))
        lost = 0
        while not committing.done():
            await asyncio.sleep(0.3)
            lost += len(
                await pool.fetch(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND application_name = 'event-relay partitions'"
                    " ORDER BY random() LIMIT 1"
                )
            )
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert lost >= 5
    assert stream.first_arrivals() == IN_ORDER


@pytest.mark.timeout(60)
async def test_the_events_of_a_killed_relay_are_published_without_waiting_for_its_lease_or_a_poll(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    async with relay_processes(1, database, amqp_url, LEASE_SECONDS="600") as (killed,):
        await eventually(lambda: shares_are(pool, [16]), within=30)
        async with running_relay(database, amqp_url, poll_seconds=600.0):
            await eventually(lambda: shares_are(pool, [8, 8]))  # the first relay keeps partitions 0 to 7
            # It is frozen with leased events, whose leases last ten minutes. Then it is killed.
            killed.freeze()
            await source.commit(*(event(aggregate, 1) for aggregate in range(8)))
            await pool.execute(LEASE_ALL)
            await asyncio.sleep(0.5)
            assert stream.arrivals == []
            await killed.kill()
            await eventually(lambda: source.all_are("PUBLISHED"), within=10)
            assert await shares_are(pool, [16])
    assert sorted(stream.arrivals) == [(aggregate, 1) for aggregate in range(8)]


LEASE_ALL = """
UPDATE event_outbox
   SET status = 'PROCESSING', lease_token = gen_random_uuid(), lease_until = now() + interval '10 minutes'
 WHERE status = 'PENDING'
"""


async def shares_are(pool: Pool, shares: list[int]) -> bool:
    rows = await pool.fetch(
        "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database"
        " WHERE datname = current_database() AND locktype = 'advisory' AND classid = 42 AND objid < 16"
        " GROUP BY pid"
    )
    return sorted(row["count"] for row in rows) == shares
