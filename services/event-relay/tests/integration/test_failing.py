"""Only failures of the message itself count as attempts; failures of the broker do not."""

import asyncio
from functools import partial

import aio_pika
import pytest
from pydantic import SecretStr

from tablebell.outbox import Level, OutboxTable
from tablebell.postgres import Pool
from tablebell.testing import Database, eventually
from tablebell.topology import EVENT_EXCHANGE

from .running import running_relay
from .source import Source, event
from .stream import Stream

NO_POLL = {"poll_seconds": 600.0}
UNROUTABLE = "KITCHEN_ON_FIRE"


async def test_an_unroutable_event_fails_with_that_reason(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with running_relay(database, amqp_url, **NO_POLL):
        (row_id,) = await source.commit(event(1, 1, event_type=UNROUTABLE))
        await eventually(lambda: source.all_are("FAILED"))
    row = await source.row(row_id)
    assert (row["retry_count"], row["published_at"]) == (1, None)
    assert row["last_error"] == "unroutable: no queue is bound to 'event-stream' for 'kitchen.on.fire'"
    assert row["available_at"] > row["created_at"]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"event_type": ""}, "event_type must be 1 to 255 bytes long, not 0"),
        ({"event_type": "RESERVATION_" + "X" * 300}, "event_type must be 1 to 255 bytes long, not 312"),
        ({"payload": {"note": "x" * 5_000_000}}, "the message would have 5000"),
    ],
    ids=["no type", "long type", "huge payload"],
)
async def test_an_unpublishable_row_fails_alone(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, columns: dict[str, object], error: str
) -> None:
    async with running_relay(database, amqp_url, **NO_POLL):
        bad, _ = await source.commit(event(1, 1, **columns), event(2, 1))
        await eventually(lambda: stream.arrivals == [(2, 1)])
        row = await eventually(lambda: failed(source, bad))
    assert row["last_error"].startswith("unpublishable: ")
    assert error in row["last_error"]


async def failed(source: Source, row_id: int):
    row = await source.row(row_id)
    return row if row["status"] == "FAILED" else None


async def test_a_failed_event_blocks_only_its_own_aggregate(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with running_relay(database, amqp_url, **NO_POLL):
        first, successor, *_ = await source.commit(
            event(1, 1, event_type=UNROUTABLE), event(1, 2), event(17, 1), event(2, 1)
        )
        await eventually(lambda: failed(source, first))
        await source.commit(event(1, 3), event(17, 2), event(2, 2))
        await eventually(lambda: stream.first_arrivals() == {17: [1, 2], 2: [1, 2]})
        row = await source.row(successor)
        assert (row["status"], row["retry_count"]) == ("PENDING", 0)
        assert row["last_error"].startswith("waits for version 1, which failed: unroutable")

        await bind_other_queue(amqp_url)
        await source.make_retries_due()
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert stream.first_arrivals()[1] == [2, 3], "version 1 went to the other queue before these"
    assert (await source.row(successor))["last_error"] is None


async def test_a_retry_needs_no_poll(database: Database, amqp_url: SecretStr, source: Source, stream: Stream) -> None:
    async with running_relay(database, amqp_url, **NO_POLL):
        (first, _) = await source.commit(event(1, 1, event_type=UNROUTABLE), event(1, 2))
        await eventually(lambda: failed(source, first))
        await bind_other_queue(amqp_url)
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert (await source.row(first))["retry_count"] == 1


async def test_after_five_attempts_an_event_is_dead_unblocks_its_successors_and_can_be_requeued(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    async with running_relay(database, amqp_url, **NO_POLL):
        (first, _) = await source.commit(event(1, 1, event_type=UNROUTABLE), event(1, 2))
        for attempt in range(1, 5):
            await eventually(lambda: failed(source, first))
            assert (await source.row(first))["retry_count"] == attempt
            assert stream.arrivals == []
            await source.make_retries_due()
            await eventually(partial(has_failed, source, first, attempt + 1))
        await eventually(lambda: stream.arrivals == [(1, 2)])
        assert (await source.row(first))["status"] == "DEAD"

        await bind_other_queue(amqp_url)
        await OutboxTable(Level.EVENT).requeue(pool, [first])
        await source.commit(event(2, 1))
        await eventually(lambda: source.all_are("PUBLISHED"))


async def has_failed(source: Source, row_id: int, times: int) -> bool:
    row = await source.row(row_id)
    return bool(row["retry_count"] == times and row["status"] in ("FAILED", "DEAD"))


async def test_a_full_queue_counts_no_attempt_and_loses_nothing(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    """The broker answers with a nack: an unconfirmed event is not marked as published."""
    async with await aio_pika.connect(amqp_url.get_secret_value()) as connection:
        channel = await connection.channel()
        full = await channel.declare_queue("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        await full.bind(EVENT_EXCHANGE, "reservation.#")
        async with running_relay(database, amqp_url, **NO_POLL):
            await source.commit(event(1, 1))
            await eventually(lambda: source.all_are("PUBLISHED"))
            await asyncio.sleep(0.1)
            (second,) = await source.commit(event(2, 1))
            await eventually(lambda: has_error(source, second))
            row = await source.row(second)
            assert (row["status"] in ("PENDING", "PROCESSING"), row["retry_count"]) == (True, 0)
            assert "the broker did not take it" in row["last_error"]
            await full.delete(if_unused=False, if_empty=False)
            await eventually(lambda: source.all_are("PUBLISHED"))
            assert (await source.row(second))["retry_count"] == 0


async def has_error(source: Source, row_id: int) -> bool:
    return bool((await source.row(row_id))["last_error"])


async def bind_other_queue(amqp_url: SecretStr) -> None:
    """Bind a queue for the events that were unroutable."""
    async with await aio_pika.connect(amqp_url.get_secret_value()) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("other", durable=True)
        await queue.bind(EVENT_EXCHANGE, "kitchen.#")
