"""RabbitMQ with a memory alarm: it accepts no messages, and blocks only connections that have published."""

import asyncio

import pytest
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.rabbit import Broker, BrokerUnavailable, Confirmed, Consumer, Publisher, Unreachable, open_broker
from tablebell.rabbit.buffered_channel import BufferedPublishChannel
from tablebell.testing import Servers, eventually
from tablebell.topology import DEAD_QUEUE, declare_events

from .test_rabbit import QUEUE, Inbox, consumer, depth, message, numbered

WINDOW = 100

pytestmark = pytest.mark.timeout(90)


async def test_a_publishing_connection_detects_an_alarm_before_its_first_message(
    servers: Servers, amqp_url: SecretStr
) -> None:
    async with open_broker(amqp_url, "test", for_publishing=True) as broker:
        await eventually(lambda: broker.connected)
        async with servers.alarm():
            await eventually(lambda: broker.blocked)
            assert not broker.connected
            with pytest.raises(BrokerUnavailable, match="takes no messages: low on memory"):
                await broker.check()
            async with asyncio.timeout(0.5):
                outcome = await Publisher(broker, declare_events).publish(message(b"x"))
            assert outcome == Unreachable("RabbitMQ takes no messages: low on memory")
            async with open_broker(amqp_url, "late", for_publishing=True) as late:
                await eventually(lambda: late.blocked)
                assert not await late.wait_connected(0.5)
        await eventually(lambda: broker.connected)
        publisher = Publisher(broker, declare_events)
        assert await publisher.publish(message(b"x")) == Confirmed()
        await publisher.close()


async def test_repeated_publishing_during_an_alarm_duplicates_at_most_one_window(
    servers: Servers, broker: Broker, amqp_url: SecretStr
) -> None:
    messages = numbered(5 * WINDOW)
    async with open_broker(amqp_url, "test", for_publishing=True) as publishing:
        await eventually(lambda: publishing.connected)
        publisher = Publisher(publishing, declare_events, confirm_seconds=0.5, window=WINDOW)
        assert await publisher.publish(message(b"before")) == Confirmed()
        # The alarm starts during a stream of messages, so that some are in flight.
        streaming = asyncio.create_task(stream(publisher))
        async with servers.alarm():
            await eventually(lambda: publishing.blocked)
            before = await streaming
            for _ in range(10):
                outcomes = await asyncio.gather(*map(publisher.publish, messages))
                assert all(isinstance(outcome, Unreachable) for outcome in outcomes)
                await asyncio.sleep(0.2)
        await eventually(lambda: publishing.connected)
        assert await publisher.publish_all(messages) == [Confirmed()] * len(messages)
        await publisher.close()
    arrived = await depth(broker, QUEUE) - 1
    assert before + len(messages) <= arrived <= before + len(messages) + WINDOW


async def stream(publisher: Publisher) -> int:
    """Publish until a message is not confirmed; returns the number of confirmed ones."""
    confirmed = 0
    while True:
        outcomes = await publisher.publish_all(numbered(WINDOW, start=10_000))
        confirmed += outcomes.count(Confirmed())
        if outcomes != [Confirmed()] * WINDOW:
            return confirmed


async def test_a_confirm_timeout_discards_unwritten_messages(
    servers: Servers, broker: Broker, amqp_url: SecretStr
) -> None:
    """Without a probe the connection detects the alarm by its first message."""
    async with open_broker(amqp_url, "test") as plain:
        publisher = Publisher(plain, declare_events, confirm_seconds=0.3, window=WINDOW)
        await eventually(lambda: plain.connected)
        async with servers.alarm():
            for _ in range(5):
                await asyncio.gather(*map(publisher.publish, numbered(500)))
                await plain.wait_connected(1)
        await eventually(lambda: plain.connected)
    assert await depth(broker, QUEUE) <= 5 * WINDOW


async def test_only_a_window_is_written_before_the_first_confirm(broker: Broker) -> None:
    publisher = Publisher(broker, declare_events, confirm_seconds=10, window=WINDOW)
    assert await publisher.publish(message(b"opens the channel")) == Confirmed()
    channel = publisher._channel
    assert isinstance(channel, BufferedPublishChannel)
    publishing = asyncio.gather(*map(publisher.publish, numbered(1000)))
    most = 0
    while not publishing.done():
        most = max(most, channel._unconfirmed)
        await asyncio.sleep(0)
    assert await publishing == [Confirmed()] * 1000
    assert 0 < most <= WINDOW
    assert channel._unconfirmed == 0
    await publisher.close()


async def test_during_an_alarm_a_queue_drains_and_poison_waits_unacked_until_it_can_be_buried(
    servers: Servers, broker: Broker, amqp_url: SecretStr
) -> None:
    async with (
        open_broker(amqp_url, "consuming") as consuming,
        open_broker(amqp_url, "publishing", for_publishing=True) as publishing,
    ):
        publisher = Publisher(broker, declare_events)
        assert await publisher.publish(message(b"opens the channel")) == Confirmed()
        await eventually(lambda: publishing.connected)
        inbox, stop = Inbox(), Stop()
        await publisher.publish_all([*numbered(100), message(b"poison"), *numbered(100, start=100)])
        async with servers.alarm():
            await eventually(lambda: publishing.blocked)
            listening = Consumer(
                consuming, QUEUE, DEAD_QUEUE, inbox, declare_events, batch_size=16, dead_letters=publishing
            )
            running = asyncio.create_task(listening.run(stop))
            await eventually(lambda: len(inbox.bodies) == 201)
            await eventually(lambda: is_drained(consuming))
            assert await depth(consuming, DEAD_QUEUE) == 0
            await listening.check()
        await eventually(lambda: is_buried(consuming))
        stop.request()
        await running
        assert inbox.bodies[1:] == [str(n).encode() for n in range(200)]
        assert await depth(broker, QUEUE) == 0
        await publisher.close()


async def is_drained(broker: Broker) -> bool:
    return await depth(broker, QUEUE) == 0


async def is_buried(broker: Broker) -> bool:
    return await depth(broker, DEAD_QUEUE) == 1


async def is_requeued(broker: Broker) -> bool:
    return await depth(broker, QUEUE) == 1


async def test_poison_that_cannot_be_buried_during_an_alarm_survives_its_consumer(
    servers: Servers, broker: Broker, amqp_url: SecretStr
) -> None:
    publisher = Publisher(broker, declare_events)
    assert await publisher.publish(message(b"poison")) == Confirmed()
    await publisher.close()
    async with (
        open_broker(amqp_url, "consuming") as consuming,
        open_broker(amqp_url, "publishing", for_publishing=True) as publishing,
    ):
        await eventually(lambda: publishing.connected)
        async with servers.alarm():
            await eventually(lambda: publishing.blocked)
            inbox, stop = Inbox(), Stop()
            listening = Consumer(consuming, QUEUE, DEAD_QUEUE, inbox, declare_events, dead_letters=publishing)
            running = asyncio.create_task(listening.run(stop))
            await eventually(lambda: inbox.batches)
            stop.request()
            await running
            await eventually(lambda: is_requeued(consuming))
            assert await depth(consuming, DEAD_QUEUE) == 0
        await eventually(lambda: publishing.connected)
        after = Stop()
        running = asyncio.create_task(consumer(publishing, inbox).run(after))
        await eventually(lambda: is_buried(consuming))
        after.request()
        await running
