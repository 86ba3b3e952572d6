"""Publishing and consuming against a real broker, with outages."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from aio_pika.abc import AbstractChannel
from aiormq.abc import ChannelFrame
from pamqp.commands import Basic
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.rabbit import (
    Broker,
    Confirmed,
    Consumer,
    Handled,
    HandlingResult,
    OutgoingMessage,
    Poison,
    Publisher,
    ReceivedMessage,
    Rejected,
    Unreachable,
)
from tablebell.rabbit.buffered_channel import BufferedPublishChannel
from tablebell.testing import Servers, eventually
from tablebell.topology import DEAD_QUEUE, EVENT_EXCHANGE, EVENT_QUEUES, declare_events

QUEUE = "event-stream.restaurant"


def message(body: bytes, routing_key: str = "reservation.requested") -> OutgoingMessage:
    return OutgoingMessage(
        EVENT_EXCHANGE, routing_key, body, Basic.Properties(message_id=body[:100].hex(), delivery_mode=2)
    )


def numbered(count: int, start: int = 0) -> list[OutgoingMessage]:
    return [message(str(n).encode()) for n in range(start, start + count)]


@pytest.fixture
async def publisher(broker: Broker) -> AsyncIterator[Publisher]:
    publisher = Publisher(broker, declare_events, confirm_seconds=5.0, window=100)
    yield publisher
    await publisher.close()


class Inbox:
    """A handler that records its messages in order, and decides by the body."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.batches: list[int] = []
        self.fail_with: list[Exception] = []

    async def __call__(self, batch: Sequence[ReceivedMessage]) -> Sequence[HandlingResult]:
        if self.fail_with:
            raise self.fail_with.pop()
        if any(delivery.body == b"crash" for delivery in batch):
            raise ValueError("cannot read this")
        self.batches.append(len(batch))
        self.bodies += [delivery.body for delivery in batch if delivery.body != b"poison"]
        return [Poison("it says so") if delivery.body == b"poison" else Handled() for delivery in batch]


def consumer(broker: Broker, inbox: Inbox, **options: Any) -> Consumer:
    return Consumer(broker, QUEUE, DEAD_QUEUE, inbox, declare_events, **options)


async def depth(broker: Broker, queue: str) -> int:
    channel = await broker.open_channel(confirms=False, wait=10)
    try:
        declared = await channel.declare_queue(queue, passive=True)
        return declared.declaration_result.message_count or 0
    finally:
        await channel.close()


async def test_a_published_message_is_confirmed_and_in_every_listeners_queue(
    broker: Broker, publisher: Publisher
) -> None:
    outcomes = await publisher.publish_all(numbered(250))
    assert outcomes == [Confirmed()] * 250
    for queue in EVENT_QUEUES.values():
        assert await depth(broker, queue) == 250


async def test_messages_arrive_in_the_order_in_which_they_were_published(broker: Broker, publisher: Publisher) -> None:
    await publisher.publish_all(numbered(500))
    inbox, stop = Inbox(), Stop()
    running = asyncio.create_task(consumer(broker, inbox, batch_size=64).run(stop))
    await eventually(lambda: len(inbox.bodies) == 500)
    stop.request()
    await running
    assert inbox.bodies == [str(n).encode() for n in range(500)]
    assert max(inbox.batches) <= 64
    assert await depth(broker, QUEUE) == 0


async def test_only_an_unroutable_message_is_rejected(publisher: Publisher) -> None:
    outcomes = await publisher.publish_all([message(b"a"), message(b"b", "nobody.listens"), message(b"c")])
    assert outcomes == [
        Confirmed(),
        Rejected("unroutable: no queue is bound to 'event-stream' for 'nobody.listens'"),
        Confirmed(),
    ]


async def test_among_many_at_once_each_message_has_its_own_outcome(publisher: Publisher) -> None:
    messages = numbered(300)
    messages[150] = message(b"150", "nobody.listens")
    outcomes = await asyncio.gather(*map(publisher.publish, messages))
    assert [number for number, outcome in enumerate(outcomes) if outcome != Confirmed()] == [150]
    assert isinstance(outcomes[150], Rejected)


async def test_messages_published_together_are_written_together(broker: Broker, publisher: Publisher) -> None:
    await publisher.publish(message(b"opens the channel"))
    assert isinstance(publisher._channel, BufferedPublishChannel)
    channel = publisher._channel._underlay
    before, written = channel.write_queue.put, []

    async def put(frame: ChannelFrame) -> None:
        written.append(len(frame.payload))
        await before(frame)

    channel.write_queue.put = put  # type: ignore[method-assign, assignment]
    assert await publisher.publish_all(numbered(100)) == [Confirmed()] * 100
    assert len(written) == 1


async def test_a_body_of_many_frames_arrives_whole(broker: Broker, publisher: Publisher) -> None:
    body = bytes(range(256)) * 4096
    assert await publisher.publish_all([message(body[:5]), message(body), message(b"")]) == [Confirmed()] * 3
    inbox, stop = Inbox(), Stop()
    running = asyncio.create_task(consumer(broker, inbox).run(stop))
    await eventually(lambda: len(inbox.bodies) == 3)
    stop.request()
    await running
    assert inbox.bodies == [body[:5], body, b""]


async def test_a_channel_that_closes_before_the_confirm_is_unreachable_and_the_next_message_gets_another(
    broker: Broker, publisher: Publisher
) -> None:
    lost = OutgoingMessage("no such exchange", "x", b"", Basic.Properties(message_id="1"))
    outcomes = await asyncio.gather(*map(publisher.publish, [lost, *numbered(10)]))
    assert all(isinstance(outcome, Unreachable) for outcome in outcomes)

    async def is_confirmed() -> bool:
        """The broker closes the connection too if it reads a message after it has closed the channel."""
        return await publisher.publish(message(b"again")) == Confirmed()

    await eventually(is_confirmed)


async def test_poison_goes_to_the_dead_queue_with_its_reason_and_the_others_are_handled(
    broker: Broker, publisher: Publisher
) -> None:
    await publisher.publish_all([message(b"1"), message(b"poison"), message(b"2"), message(b"crash"), message(b"3")])
    inbox, stop = Inbox(), Stop()
    running = asyncio.create_task(consumer(broker, inbox, batch_size=10, linger_seconds=0.05).run(stop))
    await eventually(lambda: len(inbox.bodies) == 3)
    channel = await broker.open_channel(confirms=False)
    dead = await drain(channel, 2)
    stop.request()
    await running
    assert inbox.bodies == [b"1", b"2", b"3"]
    assert dead == {b"poison": "it says so", b"crash": "ValueError: cannot read this"}
    assert await depth(broker, QUEUE) == 0


async def test_a_dead_letter_is_deleted_after_its_time(broker: Broker, publisher: Publisher) -> None:
    await publisher.publish_all([message(b"poison"), message(b"1")])
    inbox, stop = Inbox(), Stop()
    ttl = timedelta(seconds=2)
    running = asyncio.create_task(consumer(broker, inbox, dead_letter_ttl=ttl).run(stop))
    await eventually(lambda: inbox.bodies == [b"1"])

    async def is_empty() -> bool:
        return await depth(broker, DEAD_QUEUE) == 0

    async def is_buried() -> bool:
        return not await is_empty()

    await eventually(is_buried)
    await eventually(is_empty)
    stop.request()
    await running


async def drain(channel: AbstractChannel, count: int) -> dict[bytes, str]:
    queue = await channel.get_queue(DEAD_QUEUE)
    found: dict[bytes, str] = {}
    while len(found) < count:
        letter = await queue.get(timeout=10, fail=False)
        if letter is None:
            await asyncio.sleep(0.02)
            continue
        assert letter.headers["x-dead-queue"] == QUEUE
        assert letter.headers["x-dead-routing-key"] == "reservation.requested"
        found[letter.body] = str(letter.headers["x-dead-reason"])
        await letter.ack()
    return found


@pytest.mark.parametrize(
    "outage",
    [
        ConnectionRefusedError("the database is away"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress"),
    ],
    ids=["refused", "closed", "ended-but-not-hung-up"],
)
async def test_an_outage_of_the_handler_is_waited_out_in_order(
    broker: Broker, publisher: Publisher, outage: Exception
) -> None:
    await publisher.publish_all(numbered(20))
    inbox, stop = Inbox(), Stop()
    inbox.fail_with = [outage] * 3
    running = asyncio.create_task(consumer(broker, inbox, batch_size=5).run(stop))
    await eventually(lambda: len(inbox.bodies) == 20)
    stop.request()
    await running
    assert inbox.bodies == [str(n).encode() for n in range(20)]
    assert await depth(broker, DEAD_QUEUE) == 0


async def test_a_message_that_was_not_finished_at_a_stop_is_redelivered(broker: Broker, publisher: Publisher) -> None:
    await publisher.publish_all(numbered(10))
    never, first_stop = Inbox(), Stop()
    never.fail_with = [ConnectionRefusedError("the database is away")] * 1000
    first = asyncio.create_task(consumer(broker, never, batch_size=5).run(first_stop))
    await eventually(lambda: len(never.fail_with) < 1000)
    first_stop.request()
    await asyncio.wait_for(first, 10)
    inbox, stop = Inbox(), Stop()
    second = asyncio.create_task(consumer(broker, inbox, batch_size=5).run(stop))
    await eventually(lambda: len(inbox.bodies) == 10)
    stop.request()
    await second
    assert inbox.bodies == [str(n).encode() for n in range(10)]


async def test_two_consumers_take_turns_so_that_order_holds(broker: Broker, publisher: Publisher) -> None:
    one, other, stop_one, stop_other = Inbox(), Inbox(), Stop(), Stop()
    first = asyncio.create_task(consumer(broker, one).run(stop_one))
    second = asyncio.create_task(consumer(broker, other).run(stop_other))
    await publisher.publish_all(numbered(50))
    await eventually(lambda: len(one.bodies) + len(other.bodies) == 50)
    assert not (one.bodies and other.bodies), "a listener's queue has a single active consumer"
    active, active_stop = (one, stop_one) if one.bodies else (other, stop_other)
    active_stop.request()
    await publisher.publish_all(numbered(50, start=50))
    await eventually(lambda: len(one.bodies) + len(other.bodies) == 100)
    stop_one.request()
    stop_other.request()
    await asyncio.gather(first, second)
    rest = other if active is one else one
    assert active.bodies + rest.bodies == [str(n).encode() for n in range(100)]


async def test_without_a_broker_publishing_is_unreachable_and_does_not_hang() -> None:

    broker = Broker(SecretStr("amqp://nobody:nothing@127.0.0.1:1/"), "test")
    outcome = await asyncio.wait_for(Publisher(broker, declare_events).publish(message(b"x")), 5)
    assert isinstance(outcome, Unreachable)


@pytest.mark.timeout(90)
async def test_everything_survives_a_restart_of_the_broker(
    servers: Servers, broker: Broker, publisher: Publisher
) -> None:
    inbox, stop = Inbox(), Stop()
    running = asyncio.create_task(consumer(broker, inbox, batch_size=16).run(stop))
    restart = asyncio.create_task(servers.rabbitmq("restart"))
    expected, sent, after_the_restart = set(), 0, 0
    while after_the_restart < 50:
        body = str(sent).encode()
        if isinstance(await publisher.publish(message(body)), Confirmed):
            expected.add(body)
            sent += 1
            after_the_restart += restart.done()
        else:
            await asyncio.sleep(0.1)
    await restart
    await eventually(lambda: expected <= set(inbox.bodies), within=30)
    stop.request()
    await running
    firsts = list(dict.fromkeys(int(body) for body in inbox.bodies))
    assert firsts == sorted(firsts), "what arrived first arrived in order, whatever was delivered again"
