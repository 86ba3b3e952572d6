"""RabbitMQ with an alarm, a queue that is deleted, a right that is missing: nothing is lost, buried or held up."""

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

from .harness import SLOT, Stage, data, frames_of, message, requested

MARCO = Actor(user_type=UserType.RESTAURANT_USER, user_id=51, name="Marco Riva")


async def readiness(port: int) -> dict[str, Any]:
    """What is not well; empty when ready."""
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
async def test_during_an_alarm_the_queues_drain_and_the_frames_come_when_it_is_over(
    stage: Stage, servers: Servers
) -> None:
    port, count = free_port(), 60
    async with stage.live_updates() as frames:
        reservations = [await stage.reserve(slot_time=SLOT + timedelta(hours=hours)) for hours in range(count)]
        asked = [requested(reservation) for reservation in reservations]
        decided = [
            message(
                EventType.RESERVATION_ACCEPTED,
                data(reservation, status="ACCEPTED", actor=MARCO, action="CONFIRMED"),
                version=2,
            )
            for reservation in reservations
        ]
        await stage.tell(*asked, *decided)
        async with servers.alarm(), stage.replica(port=port, listener_batch_size=10) as stop:
            await eventually(lambda: stage.processed(2 * count), within=30)
            await eventually(lambda: are_drained(stage.broker), within=10)
            assert "takes no messages" in (await readiness(port))["rabbitmq"]
            assert "listeners" not in await readiness(port)
            assert not frames
            assert await stage.count("live_frame") > 0
            # Killed at this point, another replica finds the frames.
            stop.request()
        async with stage.replica(port=port):
            await eventually(lambda: stage.is_empty("live_frame"), within=30)
            await eventually(lambda: len(frames_of(frames, "resolved")) == count, within=10)
            await eventually(lambda: is_ready(port))
            resolved = {text["eventNotificationId"] for _, text in frames_of(frames, "resolved")}
            staff = [text for to, text in frames_of(frames, "notification") if to[0].startswith("RESTAURANT_USER")]
            assert len(staff) == 3 * count
            assert resolved == {text["eventNotificationId"] for text in staff}
            # And what is emitted now does not wait in the table.
            before = len(frames_of(frames, "notification"))
            await stage.tell(requested(1_000_000))
            await eventually(lambda: len(frames_of(frames, "notification")) == before + 7)


async def test_stored_frames_go_out_in_their_order_and_new_ones_wait_behind_them(stage: Stage) -> None:
    live, away = FramePublisher(stage.broker), FramePublisher(Broker(stage.amqp_url, "never connected"))
    frames = [AddressedFrame(["CUSTOMER:5"], orjson.dumps({"type": "read", "n": number})) for number in range(30)]
    async with stage.live_updates() as seen:
        for frame in frames[:20]:
            async with stage.pool.acquire() as connection, connection.transaction():
                await away.emit(connection, [frame])
        live.is_behind = True
        for frame in frames[20:]:
            async with stage.pool.acquire() as connection, connection.transaction():
                await live.emit(connection, [frame])
        backlog = FrameBacklog(stage.pool, live, limit=7)
        assert [await backlog.run_once() for _ in range(6)] == [True] * 4 + [False] * 2
        await eventually(lambda: len(seen) == 30)
        assert [frame.text for frame in seen] == [frame.text for frame in frames]
    await live.aclose()


async def test_frames_of_a_transaction_that_is_undone_are_not_stored(stage: Stage) -> None:
    away = FramePublisher(Broker(stage.amqp_url, "never connected"))
    async with stage.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await away.emit(connection, [AddressedFrame(["CUSTOMER:5"], b"{}")])
        await transaction.rollback()
    assert await stage.count("live_frame") == 0


async def test_one_replica_publishes_stored_frames_at_a_time(stage: Stage) -> None:
    await stage.pool.execute(
        "INSERT INTO live_frame (message) VALUES ($1)", encode_frames([AddressedFrame(["A:1"], b"{}")])
    )
    live = FramePublisher(stage.broker)
    backlog = FrameBacklog(stage.pool, live)
    async with stage.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('notification-fanout live frames'))")
        await backlog.run_once()
        assert await stage.count("live_frame") == 1
    await backlog.run_once()
    assert await stage.count("live_frame") == 0
    await live.aclose()


async def publish(stage: Stage, reservation_id: int, version: int = 1, status: str = "PUBLISHED") -> UUID:
    """An event of L0 as it stands when the broker has confirmed it, without a message."""
    event_id = uuid4()
    await stage.pool.execute(
        "INSERT INTO event_outbox (event_id, event_type, aggregate_id, aggregate_version, payload, status,"
        " published_at) VALUES ($1, 'RESERVATION_REQUESTED', $2, $3, $4, 'PUBLISHED', now())",
        event_id,
        reservation_id,
        version,
        data(reservation_id),
    )
    lease = "lease_token = gen_random_uuid(), lease_until = now()," if status == "PROCESSING" else ""
    await stage.pool.execute(f"UPDATE event_outbox SET {lease} status = $2 WHERE event_id = $1", event_id, status)
    return event_id


async def declare(stage: Stage) -> None:
    channel = await stage.broker.open_channel(confirms=False, declare=declare_events)
    await channel.close()


async def has_processed(stage: Stage, audience: Audience, events: int) -> bool:
    return await stage.count("processed_event", f"listener = '{audience.listener}'") == events


async def test_what_was_published_while_a_queue_was_missing_is_handled_before_what_follows(stage: Stage) -> None:
    port, queue = free_port(), EVENT_QUEUES[Audience.RESTAURANT]
    await declare(stage)
    async with stage.replica(port=port):
        await eventually(lambda: is_ready(port))
        await stage.tell(requested(1))
        await eventually(lambda: stage.processed(1))
        # The broker confirmed these, and this queue never had them. PENDING ones will be published.
        for reservation in range(2, 12):
            await publish(stage, reservation)
        await publish(stage, 12, status="PROCESSING")
        await publish(stage, 13, status="PENDING")
        await delete_queue(stage.broker, queue)
        await eventually(lambda: has_processed(stage, Audience.RESTAURANT, 12), within=5)
        await eventually(lambda: is_ready(port), within=5)
        await eventually(lambda: stage.is_empty("listener_catch_up"), within=5)
        await stage.tell(requested(20))
        await eventually(lambda: has_processed(stage, Audience.RESTAURANT, 13))
        await eventually(lambda: has_processed(stage, Audience.AGENCY, 2))
        await eventually(lambda: has_processed(stage, Audience.CUSTOMER, 2))
        await eventually(lambda: has_processed(stage, Audience.ADMIN, 2))
    rows = await stage.pool.fetch("SELECT audience, count(*) FROM event_notification GROUP BY 1 ORDER BY 1")
    assert {row["audience"]: row["count"] for row in rows} == {"ADMIN": 2, "AGENCY": 2, "CUSTOMER": 2, "RESTAURANT": 13}
    assert await stage.count("event_notification", "reservation_id = 13") == 0


async def test_a_queue_that_was_deleted_while_nobody_listened_is_noticed_at_the_start(stage: Stage) -> None:
    await declare(stage)
    await delete_queue(stage.broker, EVENT_QUEUES[Audience.CUSTOMER])
    await publish(stage, 1)
    async with stage.replica():
        await eventually(lambda: stage.count("processed_event"))
        await eventually(lambda: stage.is_empty("listener_catch_up"))
    rows = await stage.pool.fetch("SELECT listener FROM processed_event")
    assert [row["listener"] for row in rows] == ["CUSTOMER_LISTENER"]


async def test_a_listener_that_is_killed_while_it_catches_up_starts_again(stage: Stage) -> None:
    await declare(stage)
    catching_up = CatchUp(stage.pool, Audience.ADMIN, batch_size=2)
    events = [await publish(stage, number) for number in range(1, 6)]
    await catching_up.request()
    missing = catching_up.missing()
    assert len(await anext(missing)) == 2
    await missing.aclose()  # type: ignore[attr-defined]
    async with stage.replica(listener_batch_size=2):
        await eventually(lambda: stage.is_empty("listener_catch_up"))
    rows = await stage.pool.fetch("SELECT event_id, listener FROM processed_event")
    assert {row["event_id"] for row in rows if row["listener"] == "ADMIN_LISTENER"} == set(events)
    assert len(rows) == 5


async def test_without_a_reason_to_nothing_is_caught_up(stage: Stage) -> None:
    await declare(stage)
    await publish(stage, 1)
    port = free_port()
    async with stage.replica(port=port):
        await eventually(lambda: is_ready(port))
    assert await stage.count("processed_event") == 0


async def test_a_missing_right_is_waited_out_and_nothing_is_buried(stage: Stage) -> None:
    port = free_port()
    role = "tablebell_notification_fanout"
    async with stage.replica(port=port):
        await eventually(lambda: is_ready(port))
        await stage.pool.execute(f"REVOKE INSERT ON event_notification FROM {role}")
        await stage.tell(*(requested(number) for number in range(1, 301)))
        await eventually(lambda: held_up(port))
        await asyncio.sleep(2)
        assert await held_up(port)
        assert await stage.dead() == []
        await stage.pool.execute(f"GRANT INSERT ON event_notification TO {role}")
        await eventually(lambda: stage.processed(300), within=30)
        await eventually(lambda: is_ready(port))
    assert await stage.dead() == []
    assert await stage.count("notification") == 300 * 7


async def held_up(port: int) -> bool:
    return "permission denied for table event_notification" in (await readiness(port)).get("listeners", "")
