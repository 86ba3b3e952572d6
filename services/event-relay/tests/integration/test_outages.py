"""RabbitMQ or PostgreSQL away: nothing is lost, and no attempt is counted."""

import asyncio
from collections.abc import Iterable

import pytest
from pydantic import SecretStr

from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, Servers, eventually

from .running import running_relay
from .source import Source, event
from .stream import bind_queue, listening

AGGREGATES = 50


@pytest.mark.timeout(120)
async def test_rabbitmq_stopped_for_20_seconds_in_the_middle_loses_nothing_and_counts_no_attempt(
    database: Database, amqp_url: SecretStr, source: Source, servers: Servers, pool: Pool
) -> None:
    await bind_queue(amqp_url)
    async with running_relay(database, amqp_url):
        stopping = asyncio.create_task(servers.rabbitmq("stop"))
        try:
            await commit_slowly(source, range(1, 16), pause=0.1)
            await stopping
            await commit_slowly(source, range(16, 21), pause=0.1)
            await asyncio.sleep(20)
            assert not await source.all_are("PUBLISHED")
        finally:
            await servers.rabbitmq("start")
        await eventually(lambda: source.all_are("PUBLISHED"), within=30)
    assert await pool.fetchval("SELECT max(retry_count) FROM event_outbox") == 0
    assert await pool.fetchval("SELECT count(last_error) FROM event_outbox") == 0
    async with listening(amqp_url) as stream:
        in_order = {aggregate: list(range(1, 21)) for aggregate in range(AGGREGATES)}
        await eventually(lambda: stream.first_arrivals() == in_order)


@pytest.mark.timeout(60)
async def test_postgresql_restarted_in_the_middle_loses_nothing(
    database: Database, amqp_url: SecretStr, servers: Servers
) -> None:
    await bind_queue(amqp_url)
    async with running_relay(database, amqp_url):
        async with open_pool(database.url, "test", size=5) as pool:
            await commit_slowly(Source(pool), range(1, 6), pause=0.05)
        await servers.postgres("restart")
        async with open_pool(database.url, "test", size=5) as pool:
            source = Source(pool)
            await source.commit(*(event(aggregate, 6) for aggregate in range(AGGREGATES)))
            await eventually(lambda: source.all_are("PUBLISHED"), within=20)
            assert await pool.fetchval("SELECT max(retry_count) FROM event_outbox") == 0
    async with listening(amqp_url) as stream:
        in_order = {aggregate: list(range(1, 7)) for aggregate in range(AGGREGATES)}
        await eventually(lambda: stream.first_arrivals() == in_order)


async def commit_slowly(source: Source, versions: Iterable[int], pause: float) -> None:
    for version in versions:
        await source.commit(*(event(aggregate, version) for aggregate in range(AGGREGATES)))
        await asyncio.sleep(pause)
