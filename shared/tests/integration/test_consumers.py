"""A consumer always resubscribes, never holds a batch for too long, and buries only poison messages."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from pydantic import BaseModel, SecretStr

from tablebell.lifecycle import Stop
from tablebell.postgres import Pool
from tablebell.rabbit import Broker, BrokerUnavailable, Consumer, Handled, HandlingResult, Publisher, ReceivedMessage
from tablebell.rabbit.isolation import UNEXPECTED_LIMIT, Interrupted
from tablebell.testing import Servers, eventually
from tablebell.topology import DEAD_QUEUE, declare_events

from .test_rabbit import QUEUE, Inbox, consumer, depth, message, numbered


@pytest.fixture
async def publisher(broker: Broker) -> AsyncIterator[Publisher]:
    publisher = Publisher(broker, declare_events, confirm_seconds=5.0, window=100)
    yield publisher
    await publisher.close()


async def is_ready(consumer: Consumer) -> bool:
    try:
        await consumer.check()
    except ConnectionError:
        return False
    return True


async def delete_queue(broker: Broker, queue: str) -> None:
    channel = await broker.open_channel(confirms=False)
    await channel.queue_delete(queue)
    await channel.close()


async def test_a_consumer_whose_queue_is_deleted_declares_it_and_consumes_again(
    broker: Broker, publisher: Publisher
) -> None:
    inbox, stop = Inbox(), Stop()
    listening = consumer(broker, inbox)
    with pytest.raises(BrokerUnavailable, match="not consumed"):
        await listening.check()
    running = asyncio.create_task(listening.run(stop))
    await eventually(lambda: is_ready(listening))
    for number in range(5):
        was_ready = True
        await delete_queue(broker, QUEUE)
        async with asyncio.timeout(5):
            while was_ready or not await is_ready(listening):
                was_ready &= await is_ready(listening)
                await asyncio.sleep(0)
        assert (await publisher.publish(message(str(number).encode()))) is not None
        await eventually(lambda: len(inbox.bodies) == number + 1, within=5)  # noqa: B023 - awaited at once
    stop.request()
    await running
    assert not await is_ready(listening)


async def test_after_all_queues_are_deleted_the_next_message_but_one_is_routed_again(
    broker: Broker, publisher: Publisher
) -> None:
    await publisher.publish(message(b"declares everything"))
    for queue in ("restaurant", "customer", "admin", "agency"):
        await delete_queue(broker, f"event-stream.{queue}")
    outcomes = [await publisher.publish(message(str(n).encode())) for n in range(2)]
    assert [type(outcome).__name__ for outcome in outcomes] == ["Rejected", "Confirmed"]


async def test_a_batch_that_cannot_be_handled_is_returned_and_redelivered(broker: Broker, publisher: Publisher) -> None:
    await publisher.publish_all(numbered(10))
    inbox, stop = Inbox(), Stop()
    inbox.fail_with = [ConnectionRefusedError("the database is away")] * 10_000
    holding = consumer(broker, inbox, batch_size=5, hold_seconds=0.5)
    running = asyncio.create_task(holding.run(stop))
    await eventually(lambda: holding.interruption)
    assert not await is_ready(holding)
    # Another consumer is waiting: a queue has a single active consumer.
    other, other_stop = Inbox(), Stop()
    takes_over = asyncio.create_task(consumer(broker, other, batch_size=5).run(other_stop))
    await eventually(lambda: len(other.bodies) == 10, within=5)
    stop.request()
    other_stop.request()
    await asyncio.gather(running, takes_over)
    assert other.bodies == [str(n).encode() for n in range(10)]
    assert await depth(broker, DEAD_QUEUE) == 0


async def test_a_hanging_handler_is_cancelled_in_time(broker: Broker, publisher: Publisher) -> None:
    await publisher.publish_all(numbered(3))
    calls = []

    async def hang(batch: Sequence[ReceivedMessage]) -> Sequence[HandlingResult]:
        calls.append([delivery.redelivered for delivery in batch])
        if len(calls) == 1:
            await asyncio.Event().wait()
        return [Handled()] * len(batch)

    stop = Stop()
    hanging = Consumer(broker, QUEUE, DEAD_QUEUE, hang, declare_events, hold_seconds=1.0, linger_seconds=0.1)
    running = asyncio.create_task(hanging.run(stop))
    await eventually(lambda: len(calls) == 2, within=10)
    stop.request()
    await running
    assert calls == [[False] * 3, [True] * 3]
    assert await depth(broker, QUEUE) == 0


@pytest.mark.timeout(90)
async def test_the_brokers_consumer_timeout_is_never_reached(
    servers: Servers, amqp_url: SecretStr, broker: Broker, publisher: Publisher, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker closes a channel that holds a message for longer than 3 s; the outage lasts for 8."""
    await servers.rabbitmqctl("eval", "application:set_env(rabbit, consumer_timeout, 3000).")
    await servers.rabbitmqctl("eval", "application:set_env(rabbit, channel_tick_interval, 500).")
    try:
        await publisher.publish_all(numbered(20))
        inbox, stop = Inbox(), Stop()
        inbox.fail_with = [ConnectionRefusedError("the database is away")] * 100_000
        running = asyncio.create_task(consumer(broker, inbox, batch_size=5, hold_seconds=1.5).run(stop))
        await asyncio.sleep(8)
        assert "channel_closed_by_broker" not in capsys.readouterr().out
        inbox.fail_with = []
        await eventually(lambda: len(inbox.bodies) == 20)
        stop.request()
        await running
        assert inbox.bodies == [str(n).encode() for n in range(20)]
    finally:
        await servers.rabbitmqctl("eval", "application:set_env(rabbit, consumer_timeout, 1800000).")
        await servers.rabbitmqctl("eval", "application:set_env(rabbit, channel_tick_interval, 60000).")


class Valid(BaseModel):
    number: int


class Rows:
    """A handler that writes each message into a table."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    async def __call__(self, batch: Sequence[ReceivedMessage]) -> Sequence[HandlingResult]:
        async with self.pool.acquire() as connection, connection.transaction():
            for delivery in batch:
                number = Valid.model_validate_json(b'{"number": %s}' % delivery.body).number
                await connection.execute("INSERT INTO kept VALUES ($1::text::smallint)", str(number))
        return [Handled()] * len(batch)


async def test_a_database_error_that_the_data_did_not_cause_is_waited_out(
    broker: Broker, publisher: Publisher, pool: Pool
) -> None:
    await pool.execute("CREATE TABLE lost (number smallint)")
    await publisher.publish_all(numbered(300))
    stop = Stop()
    writing = Consumer(broker, QUEUE, DEAD_QUEUE, Rows(pool), declare_events)
    running = asyncio.create_task(writing.run(stop))
    await eventually(lambda: writing.interruption)
    with pytest.raises(Interrupted, match="held up: StatementRefused: UndefinedTableError"):
        await writing.check()
    await asyncio.sleep(1)
    assert await depth(broker, DEAD_QUEUE) == 0
    await pool.execute("ALTER TABLE lost RENAME TO kept")
    await eventually(lambda: has_rows(pool, 300))
    await writing.check()
    stop.request()
    await running


async def test_invalid_messages_and_constraint_violations_are_buried_without_a_limit(
    broker: Broker, publisher: Publisher, pool: Pool
) -> None:
    await pool.execute("CREATE TABLE kept (number smallint CHECK (number <> 13))")
    bad = [b"13", b"100000", b'"not a number"'] * (UNEXPECTED_LIMIT + 1)
    await publisher.publish_all([message(b"1"), *map(message, bad), message(b"2")])
    stop = Stop()
    writing = Consumer(broker, QUEUE, DEAD_QUEUE, Rows(pool), declare_events, linger_seconds=0.05)
    running = asyncio.create_task(writing.run(stop))
    await eventually(lambda: has_rows(pool, 2))
    await eventually(lambda: is_depth(broker, DEAD_QUEUE, len(bad)))
    await writing.check()
    stop.request()
    await running


async def test_unexpected_errors_bury_a_few_messages_and_then_interrupt_the_queue(
    broker: Broker, publisher: Publisher
) -> None:
    """A faulty release: every message raises."""
    inbox, stop = Inbox(), Stop()
    inbox.fail_with = [KeyError("faulty release")] * 100_000
    await publisher.publish_all(numbered(300))
    listening = consumer(broker, inbox)
    running = asyncio.create_task(listening.run(stop))
    await eventually(lambda: listening.interruption)
    await asyncio.sleep(1)
    assert await depth(broker, DEAD_QUEUE) <= UNEXPECTED_LIMIT
    assert "messages in a row failed, now by KeyError: 'faulty release'" in (listening.interruption or "")
    inbox.fail_with = []
    buried = await depth(broker, DEAD_QUEUE)
    await eventually(lambda: len(inbox.bodies) == 300 - buried)
    await listening.check()
    stop.request()
    await running


async def test_a_failing_message_among_valid_ones_is_buried_however_many_there_are(
    broker: Broker, publisher: Publisher
) -> None:
    pairs = [message(body) for n in range(2 * UNEXPECTED_LIMIT) for body in (str(n).encode(), b"crash")]
    await publisher.publish_all(pairs)
    inbox, stop = Inbox(), Stop()
    running = asyncio.create_task(consumer(broker, inbox).run(stop))
    await eventually(lambda: is_depth(broker, DEAD_QUEUE, 2 * UNEXPECTED_LIMIT))
    stop.request()
    await running
    assert inbox.bodies == [str(n).encode() for n in range(2 * UNEXPECTED_LIMIT)]


async def is_depth(broker: Broker, queue: str, expected: int) -> bool:
    return await depth(broker, queue) == expected


async def has_rows(pool: Pool, expected: int) -> bool:
    return bool(await pool.fetchval("SELECT count(*) = $1 FROM kept", expected))
