"""The queries of an idle relay."""

import asyncio
from datetime import UTC, datetime, timedelta

from pydantic import SecretStr

from tablebell.testing import Database, eventually

from .running import running_relay
from .source import Source, event
from .stream import Stream
from .tcp_proxy import TcpProxy

POLL = 0.5
POLLS = 8


async def test_an_idle_relay_makes_one_query_per_poll(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    proxy = TcpProxy(database.url_of("event_relay"))
    async with proxy.open(), running_relay(database, amqp_url, database_url=proxy.url, poll_seconds=POLL):
        await source.commit(event(1, 1))
        await eventually(lambda: stream.arrivals == [(1, 1)])
        await asyncio.sleep(2.0)
        before = proxy.queries
        await asyncio.sleep(POLLS * POLL)
        made = proxy.queries - before
        assert POLLS // 2 <= made <= POLLS + 1


async def test_a_planned_event_causes_no_queries_before_it_is_due(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await source.commit(*(event(aggregate, 1, available_at=tomorrow) for aggregate in range(100)))
    proxy = TcpProxy(database.url_of("event_relay"))
    async with proxy.open(), running_relay(database, amqp_url, database_url=proxy.url, poll_seconds=POLL):
        await source.commit(event(1, 2))
        await eventually(lambda: stream.arrivals == [(1, 2)])
        await asyncio.sleep(2.0)
        before = proxy.queries
        await asyncio.sleep(POLLS * POLL)
        assert proxy.queries - before <= POLLS + 1
