"""Relay processes during a switchover: they resume by themselves, and nothing is lost or out of order."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from tablebell.postgres import open_pool
from tablebell.testing import Database, eventually
from tablebell.testing.database import make_database
from tablebell_local.replication import Replication
from tablebell_local.testing import open_replication

from .running import relay_processes
from .source import Source, event
from .stream import bind_queue, open_stream

AGGREGATES = 20


@pytest.fixture(scope="module")
def replication(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replication]:
    with open_replication(tmp_path_factory.mktemp("replication")) as replication:
        yield replication


@pytest.fixture(scope="module")
def replicated(replication: Replication) -> Database:
    return make_database(replication.url("postgres"))


@pytest.mark.timeout(120)
async def test_two_switchovers_lose_nothing_and_the_relays_resume_within_5_seconds(
    replication: Replication, replicated: Database, amqp_url: SecretStr
) -> None:
    await bind_queue(amqp_url)
    async with open_pool(replicated.url, "test", size=5) as pool, relay_processes(2, replicated, amqp_url):
        source = Source(pool)

        async def commit(version: int) -> None:
            await source.commit(*(event(aggregate, version) for aggregate in range(AGGREGATES)))

        await commit(1)
        await eventually(lambda: source.all_are("PUBLISHED"), within=20)
        for version in (2, 4):
            await commit(version)  # some of these may be in flight at the switchover
            await replication.switch_over()
            await commit(version + 1)
            await eventually(lambda: source.all_are("PUBLISHED"), within=5)
            await replication.follow()
        assert await pool.fetchval("SELECT max(retry_count) FROM event_outbox") == 0
    async with open_stream(amqp_url) as stream:
        in_order = {aggregate: list(range(1, 6)) for aggregate in range(AGGREGATES)}
        await eventually(lambda: stream.first_arrivals() == in_order)
