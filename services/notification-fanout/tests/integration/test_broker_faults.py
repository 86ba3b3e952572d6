"""An alarm of RabbitMQ, a deleted queue, a missing privilege: nothing is lost or buried."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import pytest

from notification_fanout.catch_up import CatchUp
from notification_fanout.frame_backlog import FrameBacklog
from notification_fanout.frame_publisher import FramePublisher
from tablebell.events import Actor, EventType
from tablebell.frames import AddressedFrame, encode_frames
from tablebell.people import Audience, UserType
from tablebell.rabbit import Broker
from tablebell.testing import Servers, eventually, free_port
from tablebell.topology import EVENT_QUEUES, declare_events

from .harness import SLOT, Harness, data, frames_of, message, requested

MARCO = Actor(user_type=UserType.RESTAURANT_USER, user_id=51, name="Marco Riva")


async def readiness(port: int) -> dict[str, Any]:
    """The failed health checks; empty if the service is ready."""
    async with httpx.AsyncClient() as http:
        try:
            answer = await http.get(f"http://127.0.0.1:{port}/health/ready")
        except httpx.TransportError:
            return {"service": "does not answer"}
    because: dict[str, Any] = answer.json().get("because", {})
    return because


async def is_ready(port: int) -> bool:
    return not await readiness(port)


async def depth(broker: Broker, queue: str) -> int:
    channel = await broker.open_channel(confirms=False, wait=10)
    declared = await channel.declare_queue(queue, passive=True)
    await channel.close()
    return declared.declaration_result.message_count or 0


async def are_drained(broker: Broker) -> bool:
    return not sum([await depth(broker, queue) for queue in EVENT_QUEUES.values()])


async def delete_queue(broker: Broker, queue: str) -> None:
    channel = await broker.open_channel(confirms=False)
    await channel.queue_delete(queue)
    await channel.close()


@pytest.mark.timeout(120)
async def test_during_an_alarm_the_queues_drain_and_the_frames_follow_afterwards(
    harness: Harness, servers: Servers
) -> None:
    port, count = free_port(), 60
    async with harness.live_updates() as frames:
        reservations = [await harness.reserve(slot_time=SLOT + timedelta(hours=hours)) for hours in range(count)]
        requests = [requested(reservation) for reservation in reservations]
        acceptances = [
            message(
                EventType.RESERVATION_ACCEPTED,
                data(reservation, status="ACCEPTED", actor=MARCO, action="CONFIRMED"),
                version=2,
            )
            for reservation in reservations
        ]
        await harness.publish(*requests, *acceptances)
        async with servers.alarm(), harness.replica(port=port, listener_batch_size=10) as stop:
            await eventually(lambda: harness.processed(2 * count), within=30)
            await eventually(lambda: are_drained(harness.broker), within=10)
            assert "takes no messages" in (await readiness(port))["rabbitmq"]
            assert "listeners" not in await readiness(port)
            assert not frames
            assert await harness.count("live_frame") > 0
            # Stop here: another replica publishes the stored frames.
            stop.request()
        async with harness.replica(port=port):
            await eventually(lambda: harness.is_empty("live_frame"), within=30)
            await eventually(lambda: len(frames_of(frames, "resolved")) == count, within=10)
            await eventually(lambda: is_ready(port))
            resolved = {text["eventNotificationId"] for _, text in frames_of(frames, "resolved")}
            staff = [text for to, text in frames_of(frames, "notification") if to[0].startswith("RESTAURANT_USER")]
            assert len(staff) == 3 * count
            assert resolved == {text["eventNotificationId"] for text in staff}
            # New frames are published directly again.
            before = len(frames_of(frames, "notification"))
            await harness.publish(requested(1_000_000))
            await eventually(lambda: len(frames_of(frames, "notification")) == before + 7)


async def test_stored_frames_are_published_in_order_and_before_new_ones(harness: Harness) -> None:
    live, disconnected = FramePublisher(harness.broker), FramePublisher(Broker(harness.amqp_url, "never connected"))
    frames = [AddressedFrame(["CUSTOMER:5"], orjson.dumps({"type": "read", "n": number})) for number in range(30)]
    async with harness.live_updates() as seen:
        for frame in frames[:20]:
            async with harness.pool.acquire() as connection, connection.transaction():
                await disconnected.emit(connection, [frame])
        live.is_behind = True
        for frame in frames[20:]:
            async with harness.pool.acquire() as connection, connection.transaction():
                await live.emit(connection, [frame])
        backlog = FrameBacklog(harness.pool, live, limit=7)
        assert [await backlog.run_once() for _ in range(6)] == [True] * 4 + [False] * 2
        await eventually(lambda: len(seen) == 30)
        assert [frame.text for frame in seen] == [frame.text for frame in frames]
    await live.aclose()


async def test_frames_of_a_transaction_that_is_rolled_back_are_not_stored(harness: Harness) -> None:
    disconnected = FramePublisher(Broker(harness.amqp_url, "never connected"))
    async with harness.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await disconnected.emit(connection, [AddressedFrame(["CUSTOMER:5"], b"{}")])
        await transaction.rollback()
    assert await harness.count("live_frame") == 0


async def test_one_replica_publishes_stored_frames_at_a_time(harness: Harness) -> None:
    await harness.pool.execute(
        "INSERT INTO live_frame (message) VALUES ($1)", encode_frames([AddressedFrame(["A:1"], b"{}")])
    )
    live = FramePublisher(harness.broker)
    backlog = FrameBacklog(harness.pool, live)
    async with harness.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('notification-fanout live frames'))")
        await backlog.run_once()
        assert await harness.count("live_frame") == 1
    await backlog.run_once()
    assert await harness.count("live_frame") == 0
    await live.aclose()


async def insert_event(harness: Harness, reservation_id: int, version: int = 1, status: str = "PUBLISHED") -> UUID:
    """Insert an event into L0 without publishing a message."""
    event_id = uuid4()
    await harness.pool.execute(
        "INSERT INTO event_outbox (event_id, event_type, aggregate_id, aggregate_version, payload, status,"
        " published_at) VALUES ($1, 'RESERVATION_REQUESTED', $2, $3, $4, 'PUBLISHED', now())",
        event_id,
        reservation_id,
        version,
        data(reservation_id),
    )
    lease = "lease_token = gen_random_uuid(), lease_until = now()," if status == "PROCESSING" else ""
    await harness.pool.execute(f"UPDATE event_outbox SET {lease} status = $2 WHERE event_id = $1", event_id, status)
    return event_id


async def declare(harness: Harness) -> None:
    channel = await harness.broker.open_channel(confirms=False, declare=declare_events)
    await channel.close()


async def has_processed(harness: Harness, audience: Audience, events: int) -> bool:
    return await harness.count("processed_event", f"listener = '{audience.listener}'") == events


async def test_events_published_while_a_queue_was_missing_are_processed_before_later_ones(harness: Harness) -> None:
    port, queue = free_port(), EVENT_QUEUES[Audience.RESTAURANT]
    await declare(harness)
    async with harness.replica(port=port):
        await eventually(lambda: is_ready(port))
        await harness.publish(requested(1))
        await eventually(lambda: harness.processed(1))
        # Confirmed by the broker, but never in this queue. The PENDING event is still to be published.
        for reservation in range(2, 12):
            await insert_event(harness, reservation)
        await insert_event(harness, 12, status="PROCESSING")
        await insert_event(harness, 13, status="PENDING")
        await delete_queue(harness.broker, queue)
        await eventually(lambda: has_processed(harness, Audience.RESTAURANT, 12), within=5)
        await eventually(lambda: is_ready(port), within=5)
        await eventually(lambda: harness.is_empty("listener_catch_up"), within=5)
        await harness.publish(requested(20))
        await eventually(lambda: has_processed(harness, Audience.RESTAURANT, 13))
        await eventually(lambda: has_processed(harness, Audience.AGENCY, 2))
        await eventually(lambda: has_processed(harness, Audience.CUSTOMER, 2))
        await eventually(lambda: has_processed(harness, Audience.ADMIN, 2))
    rows = await harness.pool.fetch("SELECT audience, count(*) FROM event_notification GROUP BY 1 ORDER BY 1")
    assert {row["audience"]: row["count"] for row in rows} == {"ADMIN": 2, "AGENCY": 2, "CUSTOMER": 2, "RESTAURANT": 13}
    assert await harness.count("event_notification", "reservation_id = 13") == 0


async def test_a_queue_deleted_while_no_listener_ran_is_detected_at_startup(harness: Harness) -> None:
    await declare(harness)
    await delete_queue(harness.broker, EVENT_QUEUES[Audience.CUSTOMER])
    await insert_event(harness, 1)
    async with harness.replica():
        await eventually(lambda: harness.count("processed_event"))
        await eventually(lambda: harness.is_empty("listener_catch_up"))
    rows = await harness.pool.fetch("SELECT listener FROM processed_event")
    assert [row["listener"] for row in rows] == ["CUSTOMER_LISTENER"]


async def test_a_listener_killed_during_catch_up_starts_over(harness: Harness) -> None:
    await declare(harness)
    catch_up = CatchUp(harness.pool, Audience.ADMIN, batch_size=2)
    events = [await insert_event(harness, number) for number in range(1, 6)]
    await catch_up.request()
    missing = catch_up.missing()
    assert len(await anext(missing)) == 2
    await missing.aclose()  # type: ignore[attr-defined]
    async with harness.replica(listener_batch_size=2):
        await eventually(lambda: harness.is_empty("listener_catch_up"))
    rows = await harness.pool.fetch("SELECT event_id, listener FROM processed_event")
    assert {row["event_id"] for row in rows if row["listener"] == "ADMIN_LISTENER"} == set(events)
    assert len(rows) == 5


async def test_a_listener_whose_queue_exists_does_not_catch_up(harness: Harness) -> None:
    await declare(harness)
    await insert_event(harness, 1)
    port = free_port()
    async with harness.replica(port=port):
        await eventually(lambda: is_ready(port))
    assert await harness.count("processed_event") == 0


async def test_a_missing_privilege_is_retried_and_nothing_is_buried(harness: Harness) -> None:
    port = free_port()
    role = "tablebell_notification_fanout"
    async with harness.replica(port=port):
        await eventually(lambda: is_ready(port))
        await harness.pool.execute(f"REVOKE INSERT ON event_notification FROM {role}")
        await harness.publish(*(requested(number) for number in range(1, 301)))
        await eventually(lambda: is_blocked(port))
        await asyncio.sleep(2)
        assert await is_blocked(port)
        assert await harness.take_dead_letters() == []
        await harness.pool.execute(f"GRANT INSERT ON event_notification TO {role}")
        await eventually(lambda: harness.processed(300), within=30)
        await eventually(lambda: is_ready(port))
    assert await harness.take_dead_letters() == []
    assert await harness.count("notification") == 300 * 7


async def is_blocked(port: int) -> bool:
    return "permission denied for table event_notification" in (await readiness(port)).get("listeners", "")
