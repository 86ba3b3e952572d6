"""Outages of RabbitMQ and PostgreSQL: nothing is lost, and no attempt is counted."""

import asyncio
from collections.abc import Iterable

import httpx
import pytest
from pydantic import SecretStr

from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, Servers, eventually

from .running import running_relay
from .source import Source, event
from .stream import bind_queue, open_stream

AGGREGATES = 50


@pytest.mark.timeout(120)
async def test_stopping_rabbitmq_for_20_seconds_loses_nothing_and_counts_no_attempt(
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
    async with open_stream(amqp_url) as stream:
        in_order = {aggregate: list(range(1, 21)) for aggregate in range(AGGREGATES)}
        await eventually(lambda: stream.first_arrivals() == in_order)


@pytest.mark.timeout(60)
async def test_restarting_postgresql_loses_nothing(database: Database, amqp_url: SecretStr, servers: Servers) -> None:
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
    async with open_stream(amqp_url) as stream:
        in_order = {aggregate: list(range(1, 7)) for aggregate in range(AGGREGATES)}
        await eventually(lambda: stream.first_arrivals() == in_order)


@pytest.mark.timeout(120)
async def test_during_a_memory_alarm_nothing_stays_claimed_and_at_most_a_batch_arrives_twice(
    database: Database, amqp_url: SecretStr, source: Source, servers: Servers, pool: Pool
) -> None:
    """The publish timeout is 1 s here: it expires several times during the alarm."""
    batch = 100
    await bind_queue(amqp_url)
    async with running_relay(database, amqp_url, batch_size=batch, lease_seconds=2) as settings:
        done = asyncio.Event()
        loading = asyncio.create_task(commit_until(done, source))
        async with servers.alarm(), httpx.AsyncClient(base_url=http_url(settings.port)) as http:
            await eventually(lambda: is_blocked(http))
            await asyncio.sleep(8)
            await eventually(lambda: has_backlog(pool, 5 * batch), within=20)
            assert await is_blocked(http)
            assert await pool.fetchval("SELECT count(*) FROM event_outbox WHERE status = 'PROCESSING'") == 0
            done.set()
            versions = await loading
        await eventually(lambda: source.all_are("PUBLISHED"), within=30)
        await eventually(lambda: is_ready(http_url(settings.port)))
    assert await pool.fetchval("SELECT max(retry_count) FROM event_outbox") == 0
    async with open_stream(amqp_url) as stream:
        in_order = {aggregate: list(range(1, versions + 1)) for aggregate in range(AGGREGATES)}
        await eventually(lambda: len(stream.messages) >= versions * AGGREGATES, within=30)
        await eventually(lambda: stream.first_arrivals() == in_order)
        await asyncio.sleep(1)
        assert stream.count_duplicates() <= batch


@pytest.mark.timeout(60)
async def test_an_alarm_before_the_start_prevents_claims_and_nothing_arrives_twice(
    database: Database, amqp_url: SecretStr, source: Source, servers: Servers, pool: Pool
) -> None:
    await bind_queue(amqp_url)
    async with servers.alarm():
        async with running_relay(database, amqp_url, lease_seconds=2):
            await commit_slowly(source, range(1, 21), pause=0.1)
            await asyncio.sleep(3)
            assert await source.all_are("PENDING")
        assert await pool.fetchval("SELECT count(last_error) FROM event_outbox") == 0
    async with running_relay(database, amqp_url), open_stream(amqp_url) as stream:
        await eventually(lambda: len(stream.arrivals) == 20 * AGGREGATES, within=30)
        await eventually(lambda: source.all_are("PUBLISHED"))
        assert stream.count_duplicates() == 0


def http_url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


async def is_ready(url: str) -> bool:
    async with httpx.AsyncClient(base_url=url) as http:
        return (await http.get("/health/ready")).status_code == 200


async def is_blocked(http: httpx.AsyncClient) -> bool:
    answer = await http.get("/health/ready")
    return answer.status_code == 503 and "takes no messages" in answer.json()["because"].get("rabbitmq", "")


async def has_backlog(pool: Pool, events: int) -> bool:
    return bool(await pool.fetchval("SELECT count(*) > $1 FROM event_outbox WHERE status = 'PENDING'", events))


async def commit_until(done: asyncio.Event, source: Source) -> int:
    """Returns the number of versions of each aggregate."""
    version = 0
    while not done.is_set():
        version += 1
        await commit_slowly(source, [version], pause=0.4)
    return version


async def commit_slowly(source: Source, versions: Iterable[int], pause: float) -> None:
    for version in versions:
        await source.commit(*(event(aggregate, version) for aggregate in range(AGGREGATES)))
        await asyncio.sleep(pause)
