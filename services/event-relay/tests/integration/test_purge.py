"""Only done and dead events past their retention are deleted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from tablebell.postgres import Pool
from tablebell.purging import BATCH_SIZE
from tablebell.testing import Database, eventually

from .running import running_relay
from .source import Source, event
from .stream import Stream, bind_queue

FILL = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, status, published_at, available_at,
                          created_at)
SELECT 'RESERVATION_REQUESTED', number, 1, '{}', $2, CASE WHEN $2 = 'PUBLISHED' THEN now() - $3::interval END,
       now() - $3::interval, now() - $3::interval
  FROM generate_series(1, $1::integer) AS number
"""
# A frame with basic.ack on channel 2. Channel 1 is for the connection's probe.
BASIC_ACK = b"\x01\x00\x02\x00\x00\x00\x0d\x00\x3c\x00\x50"
EIGHT_DAYS, SIX_DAYS, MONTHS = timedelta(days=8), timedelta(days=6), timedelta(days=60)


async def test_a_relay_deletes_only_published_and_dead_events_past_their_retention(
    database: Database, amqp_url: SecretStr, source: Source, pool: Pool
) -> None:
    await pool.execute(FILL, BATCH_SIZE + 500, "PUBLISHED", EIGHT_DAYS)
    await pool.execute(FILL, 30, "PUBLISHED", SIX_DAYS)
    await pool.execute(FILL, 20, "DEAD", EIGHT_DAYS)
    await pool.execute(FILL, 10, "DEAD", MONTHS)
    async with running_relay(database, amqp_url, purge_seconds=0.2, retention_days=7):
        await eventually(lambda: purged(source, {"PUBLISHED": 30, "DEAD": 20}))
        await asyncio.sleep(0.5)
        assert await source.statuses() == {"PUBLISHED": 30, "DEAD": 20}


async def purged(source: Source, expected: dict[str, int]) -> bool:
    return await source.statuses() == expected


@asynccontextmanager
async def without_confirms(amqp_url: SecretStr) -> AsyncIterator[SecretStr]:
    """A proxy that drops the broker's confirms, so that the relay always has events in flight."""
    parts = urlsplit(amqp_url.get_secret_value())

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, drop: bytes | None) -> None:
        while data := await reader.read(65536):
            if drop is None or drop not in data:
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(
                    forward(reader, to_broker, drop=None), forward(from_broker, writer, drop=BASIC_ACK)
                )
        finally:
            to_broker.close()
            writer.close()

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    login = parts.netloc.rpartition("@")[0]
    try:
        yield SecretStr(urlunsplit(parts._replace(netloc=f"{login}@127.0.0.1:{port}")))
    finally:
        proxy.close()


async def test_a_relay_with_events_in_flight_purges(
    database: Database, amqp_url: SecretStr, source: Source, pool: Pool
) -> None:
    await bind_queue(amqp_url)
    await pool.execute(FILL, 2 * BATCH_SIZE + 500, "PUBLISHED", EIGHT_DAYS)
    await source.commit(event(1, 1))
    async with (
        without_confirms(amqp_url) as url,
        running_relay(database, url, purge_seconds=0.2, retention_days=7),
    ):
        await eventually(lambda: source.all_are("PROCESSING"), within=8)


async def test_a_row_that_cannot_be_deleted_does_not_stop_the_relay(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    await pool.execute(FILL, 10, "PUBLISHED", EIGHT_DAYS)
    await pool.execute("CREATE TABLE referencing (id bigint REFERENCES event_outbox)")
    await pool.execute("INSERT INTO referencing SELECT min(id) FROM event_outbox")
    async with running_relay(database, amqp_url, purge_seconds=0.1, retention_days=7):
        await asyncio.sleep(0.5)
        await source.commit(event(1, 1))
        await eventually(lambda: stream.arrivals == [(1, 1)])
        await pool.execute("DROP TABLE referencing")
        await eventually(lambda: purged(source, {"PUBLISHED": 1}))
