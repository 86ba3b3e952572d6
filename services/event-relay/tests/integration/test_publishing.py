"""A committed event arrives as its contract says, and is marked as published after the broker's confirm."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import aio_pika
from pydantic import SecretStr

from tablebell.events import Event
from tablebell.testing import Database, eventually
from tablebell.topology import EVENT_EXCHANGE

from .running import running_relay
from .source import Source, event
from .stream import Stream

NO_POLL = {"poll_seconds": 600.0}
CORRELATION = {"correlation_id": "ask-4711", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}


async def test_a_message_matches_the_contract(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with running_relay(database, amqp_url, **NO_POLL):
        (row_id,) = await source.commit(event(7, 3, event_type="RESERVATION_REMINDER_DUE", headers=CORRELATION))
        (message,) = await eventually(lambda: stream.messages)
        await eventually(lambda: source.all_are("PUBLISHED"))
    row = await source.row(row_id)
    assert message.exchange == EVENT_EXCHANGE
    assert message.routing_key == "reservation.reminder.due"
    assert message.message_id == str(row["event_id"])
    assert message.type == "RESERVATION_REMINDER_DUE"
    assert message.correlation_id == "ask-4711"
    assert message.content_type == "application/json"
    assert message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert message.timestamp == row["created_at"].replace(microsecond=0)
    assert message.headers == {
        "aggregate_type": "reservation",
        "aggregate_id": 7,
        "aggregate_version": 3,
        "traceparent": CORRELATION["traceparent"],
    }
    body = Event.model_validate_json(message.body)
    assert (body.event_id, body.occurred_at, body.correlation_id) == (row["event_id"], row["created_at"], "ask-4711")
    assert set(json.loads(message.body)) == {
        "eventId",
        "eventType",
        "aggregateType",
        "aggregateId",
        "aggregateVersion",
        "occurredAt",
        "correlationId",
        "data",
    }
    assert body.data == {"reservationId": 7, "partySize": 4}
    assert row["published_at"] is not None
    assert (row["retry_count"], row["last_error"], row["lease_token"]) == (0, None, None)


async def test_events_committed_before_the_start_are_published(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    await source.commit(*(event(aggregate, 1) for aggregate in range(50)))
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: len(stream.messages) == 50)
        await eventually(lambda: source.all_are("PUBLISHED"))


async def test_without_wake_ups_the_poll_finds_everything(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with running_relay(database, amqp_url, relay_wakeups=False, poll_seconds=0.3):
        for version in range(1, 4):
            await source.commit(*(event(aggregate, version) for aggregate in range(20)))
            await eventually(lambda: source.all_are("PUBLISHED"))
    assert stream.first_arrivals() == {aggregate: [1, 2, 3] for aggregate in range(20)}


async def test_a_planned_event_is_published_within_a_second_of_its_time_and_blocks_nothing(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with running_relay(database, amqp_url, **NO_POLL):
        await source.commit(event(2, 1))
        await eventually(lambda: source.all_are("PUBLISHED"))
        at = datetime.now(UTC) + timedelta(seconds=2)
        (planned, _) = await source.commit(event(1, 1, available_at=at, schedule_key="reminder-2h"), event(1, 2))
        await eventually(lambda: (1, 2) in stream.arrivals)
        assert (1, 1) not in stream.arrivals
        await eventually(lambda: (1, 1) in stream.arrivals)
        await eventually(lambda: source.all_are("PUBLISHED"))
    published_at = (await source.row(planned))["published_at"]
    assert timedelta(0) <= published_at - at < timedelta(seconds=1)


async def test_an_event_planned_before_the_start_is_published_in_time_without_a_poll(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    at = datetime.now(UTC) + timedelta(seconds=2)
    (planned,) = await source.commit(event(1, 1, available_at=at))
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: stream.arrivals)
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert timedelta(0) <= (await source.row(planned))["published_at"] - at < timedelta(seconds=1)


async def test_a_successor_is_published_as_soon_as_its_predecessor_is_confirmed_without_a_poll(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    """Single commits to few aggregates: most are claimed while their predecessor is in flight."""
    async with running_relay(database, amqp_url, **NO_POLL):
        for version in range(1, 41):
            await asyncio.gather(*(source.commit(event(aggregate, version)) for aggregate in range(5)))
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert stream.first_arrivals() == {aggregate: list(range(1, 41)) for aggregate in range(5)}
    assert stream.count_duplicates() == 0


async def test_events_of_one_version_are_published_in_the_order_of_their_ids_across_batches(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    """Marking all notifications as read creates many events of one aggregate and version."""
    async with running_relay(database, amqp_url, batch_size=10, poll_seconds=600.0):
        await source.commit(*(event(1, 1, payload={"number": number}) for number in range(35)), event(1, 2))
        await eventually(lambda: source.all_are("PUBLISHED"))
        await eventually(lambda: len(stream.messages) == 36)
    numbers = [json.loads(message.body)["data"].get("number") for message in stream.messages]
    assert numbers == [*range(35), None]


async def test_versions_committed_out_of_order_arrive_in_order(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    await source.commit(*(event(aggregate, version) for version in range(20, 0, -1) for aggregate in range(10)))
    async with running_relay(database, amqp_url, batch_size=15, **NO_POLL):
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert stream.first_arrivals() == {aggregate: list(range(1, 21)) for aggregate in range(10)}
    assert stream.count_duplicates() == 0


async def test_an_event_of_a_long_transaction_is_found_by_the_poll(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    """When it becomes visible, the cursor is already past its timestamp."""
    async with running_relay(database, amqp_url, poll_seconds=1.0):
        await source.commit(event(1, 1))
        await eventually(lambda: source.all_are("PUBLISHED"))
        await source.commit(event(2, 1, available_at=datetime.now(UTC) - timedelta(hours=1)))
        await eventually(lambda: (2, 1) in stream.arrivals)
