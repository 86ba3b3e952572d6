"""`resolved` and `read` frames, and the withdrawal of pending sends."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from tablebell.events import Actor, EventType, NotificationData
from tablebell.people import Audience, UserType
from tablebell.rabbit import OutgoingMessage
from tablebell.testing import eventually

from .harness import SLOT, Harness, data, frames_of, message, requested

MARCO = Actor(user_type=UserType.RESTAURANT_USER, user_id=51, name="Marco Riva")
ANNA = Actor(user_type=UserType.CUSTOMER, user_id=5, name="Anna Bianchi")
STAFF = ("RESTAURANT_USER:50", "RESTAURANT_USER:51", "RESTAURANT_USER:52")


def about_notification(event_type: EventType, **given: Any) -> OutgoingMessage:
    payload = NotificationData(at=datetime.now(UTC), **given).model_dump(mode="json", by_alias=True)
    return message(event_type, payload, aggregate=("notification", 1))


async def request_reservation(harness: Harness) -> tuple[int, int]:
    """Request a reservation at restaurant 10; return the ids of the reservation and of the shared notification."""
    reservation_id = await harness.reserve()
    await harness.publish(requested(reservation_id))
    await eventually(lambda: harness.processed(1))
    request_id = await harness.pool.fetchval("SELECT id FROM event_notification WHERE audience = 'RESTAURANT'")
    return reservation_id, request_id


async def test_a_decision_sends_a_frame_to_all_staff_and_withdraws_pending_sends(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        reservation_id, request_id = await request_reservation(harness)
        await harness.pool.execute(
            "UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT'"
            " WHERE user_id = 50 AND channel_type = 'EMAIL'"
        )
        decided = data(reservation_id, status="ACCEPTED", actor=MARCO, action="CONFIRMED")
        await harness.publish(message(EventType.RESERVATION_ACCEPTED, decided, version=2))
        await eventually(lambda: frames_of(frames, "resolved"))
        await eventually(lambda: harness.processed(2))
    ((to, frame),) = frames_of(frames, "resolved")
    assert to == STAFF
    assert frame["eventNotificationId"] == request_id
    assert (frame["action"], frame["actorId"], frame["actorName"]) == ("CONFIRMED", 51, "Marco Riva")
    withdrawn = (
        "user_type = 'RESTAURANT_USER' AND outcome = 'WITHDRAWN' AND last_error = 'handled by Marco Riva (CONFIRMED)'"
    )
    assert await harness.count("notification_channel_send", withdrawn) == 8
    assert await harness.count("notification_channel_send", "outcome = 'SENT'") == 1
    # Admins are not notified of an acceptance, so nothing supersedes the request.
    assert await harness.count("notification_channel_send", "user_type = 'ADMIN_USER' AND outcome = 'WITHDRAWN'") == 0


async def test_a_decision_that_can_be_undone_and_its_undo_reach_only_the_staff(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        reservation_id, request_id = await request_reservation(harness)
        decided = data(reservation_id, status="ACCEPTED", actor=MARCO, action="CONFIRMED")
        await harness.publish(message(EventType.RESERVATION_DECIDED, decided, version=2))
        await eventually(lambda: frames_of(frames, "resolved"))
        await eventually(lambda: harness.processed(2))
        undone = data(reservation_id, actor=MARCO, action="CUSTOM")
        await harness.pool.execute("UPDATE reservation SET version = 3")
        await harness.publish(message(EventType.RESERVATION_DECISION_UNDONE, undone, version=3))
        await eventually(lambda: harness.processed(3))
        await eventually(lambda: len(frames_of(frames, "notification")) == 10)
    ((to, resolved),) = frames_of(frames, "resolved")
    assert (to, resolved["eventNotificationId"], resolved["action"]) == (STAFF, request_id, "CONFIRMED")
    ((to, changed),) = frames_of(frames, "reservation")
    assert (to, changed["status"], changed["version"]) == (STAFF, "ACCEPTED", 2)
    again = [frame for _, frame in frames_of(frames, "notification") if frame["eventType"] != "RESERVATION_REQUESTED"]
    assert {(frame["eventType"], frame["shared"]) for frame in again} == {("RESERVATION_DECISION_UNDONE", True)}
    assert all("CONFIRMED" in frame["actions"] for frame in again)
    sends = await harness.pool.fetch(
        "SELECT DISTINCT s.user_type, s.channel_type FROM notification_channel_send AS s"
        " JOIN notification AS n ON n.id = s.notification_id"
        " JOIN event_notification AS en ON en.id = n.event_notification_id WHERE en.event_type LIKE '%UNDONE'"
    )
    assert [tuple(row) for row in sends] == [("RESTAURANT_USER", "PUSH")]


async def test_a_user_who_has_left_the_restaurant_gets_no_frames(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        reservation_id, request_id = await request_reservation(harness)
        await harness.pool.execute("UPDATE restaurant_users SET restaurant_id = 11 WHERE id = 50")
        read = about_notification(
            EventType.NOTIFICATION_READ,
            audience=Audience.RESTAURANT,
            actor=MARCO,
            event_notification_id=request_id,
            shared=True,
        )
        decided = data(reservation_id, status="ACCEPTED", actor=MARCO, action="CONFIRMED")
        await harness.publish(read, message(EventType.RESERVATION_ACCEPTED, decided, version=2))
        await eventually(lambda: frames_of(frames, "resolved") and frames_of(frames, "read"))
    for frame_type in ("resolved", "read"):
        assert [to for to, _ in frames_of(frames, frame_type)] == [STAFF[1:]]


async def test_a_cancellation_by_the_customer_resolves_the_open_request(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        reservation_id, request_id = await request_reservation(harness)
        cancelled = data(reservation_id, status="CANCELLED", actor=ANNA, action="CUSTOM")
        await harness.publish(message(EventType.RESERVATION_CANCELLED, cancelled, version=2))
        await eventually(lambda: frames_of(frames, "resolved"))
        await eventually(lambda: harness.processed(2))
    ((to, frame),) = frames_of(frames, "resolved")
    assert (to, frame["eventNotificationId"], frame["actorName"]) == (STAFF, request_id, "Anna Bianchi")
    assert (frame["actorType"], frame["outcome"]["eventType"]) == ("CUSTOMER", "RESERVATION_CANCELLED")
    assert datetime.fromisoformat(frame["outcome"]["slotTime"]) == SLOT
    withdrawn = (
        "notification_id IN (SELECT id FROM notification_restaurant WHERE event_notification_id = "
        f"{request_id}) AND outcome = 'WITHDRAWN'"
    )
    assert await harness.count("notification_channel_send", withdrawn) == 9


async def test_a_resolved_frame_names_the_first_action_and_not_the_actor_of_the_event(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        reservation_id, _ = await request_reservation(harness)
        await harness.pool.execute(
            "INSERT INTO notification_action (reservation_id, reservation_version, actor_id, actor_type, action_type,"
            " first_to_act) VALUES ($1, 1, 52, 'RESTAURANT_USER', 'CUSTOM', true)",
            reservation_id,
        )
        decided = data(reservation_id, status="ACCEPTED", actor=MARCO, action="CONFIRMED")
        await harness.publish(message(EventType.RESERVATION_ACCEPTED, decided, version=2))
        await eventually(lambda: frames_of(frames, "resolved"))
    ((_, frame),) = frames_of(frames, "resolved")
    assert (frame["action"], frame["actorName"]) == ("CUSTOM", "Sofia Costa")


async def test_a_custom_action_sends_a_frame_to_all_staff(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        _, request_id = await request_reservation(harness)
        handled = about_notification(
            EventType.NOTIFICATION_RESOLVED,
            audience=Audience.RESTAURANT,
            actor=MARCO,
            action="CUSTOM",
            event_notification_id=request_id,
            shared=True,
        )
        await harness.publish(handled)
        await eventually(lambda: frames_of(frames, "resolved"))
        await eventually(lambda: harness.processed(2))
    ((to, frame),) = frames_of(frames, "resolved")
    assert (to, frame["action"]) == (STAFF, "CUSTOM")
    assert await harness.count("notification_channel_send", "outcome = 'WITHDRAWN'") == 9


async def test_a_dismissal_sends_a_frame_to_its_owner_and_withdraws_nothing(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        _, request_id = await request_reservation(harness)
        dismissed = about_notification(
            EventType.NOTIFICATION_DISMISSED,
            audience=Audience.RESTAURANT,
            actor=MARCO,
            action="DISMISSED",
            event_notification_id=request_id,
            notification_ids=[17],
        )
        await harness.publish(dismissed)
        await eventually(lambda: frames_of(frames, "dismissed"))
        await eventually(lambda: harness.processed(2))
    ((to, frame),) = frames_of(frames, "dismissed")
    assert (to, frame["notificationId"]) == (("RESTAURANT_USER:51",), 17)
    assert frames_of(frames, "resolved") == []
    assert await harness.count("notification_channel_send", "outcome = 'WITHDRAWN'") == 0


async def test_an_arrival_notifies_nobody_and_is_sent_to_the_screens_of_the_staff(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        await harness.pool.execute("UPDATE restaurant_users SET active = false WHERE id = 52")
        arrived = data(7, status="ARRIVED", actor=MARCO, action="CUSTOM")
        await harness.publish(message(EventType.RESERVATION_ARRIVED, arrived, version=3))
        await eventually(lambda: frames_of(frames, "reservation"))
        await eventually(lambda: harness.processed(1))
    ((to, frame),) = frames_of(frames, "reservation")
    assert (to, frame["reservationId"], frame["status"], frame["version"]) == (STAFF[:2], 7, "ARRIVED", 3)
    assert await harness.count("notification") == 0


async def test_reading_a_shared_notification_sends_a_frame_to_all_staff(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        _, request_id = await request_reservation(harness)
        read = about_notification(
            EventType.NOTIFICATION_READ,
            audience=Audience.RESTAURANT,
            actor=MARCO,
            event_notification_id=request_id,
            shared=True,
        )
        await harness.publish(read)
        await eventually(lambda: frames_of(frames, "read"))
        await eventually(lambda: harness.processed(2))
    ((to, frame),) = frames_of(frames, "read")
    assert to == STAFF
    assert (frame["eventNotificationId"], frame["readByUserId"]) == (request_id, 51)


async def test_reading_an_own_notification_sends_a_frame_to_this_user_only(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        read = about_notification(EventType.NOTIFICATION_READ, audience=Audience.CUSTOMER, actor=ANNA, up_to_id=99)
        await harness.publish(read)
        await eventually(lambda: frames_of(frames, "read"))
        await eventually(lambda: harness.processed(1))
    ((to, frame),) = frames_of(frames, "read")
    assert (to, frame["upToId"], frame["notificationIds"]) == (("CUSTOMER:5",), 99, None)


async def test_a_cancellation_withdraws_a_pending_reminder(harness: Harness) -> None:
    async with harness.replica():
        reservation_id = await harness.reserve(status="ACCEPTED", version=2)
        reminder = data(reservation_id, status="ACCEPTED", reminder="2h")
        await harness.publish(message(EventType.RESERVATION_REMINDER_DUE, reminder, version=2))
        await eventually(lambda: harness.processed(1))
        await harness.publish(message(EventType.RESERVATION_CANCELLED, data(reservation_id, actor=ANNA), version=3))
        await eventually(lambda: harness.processed(2))
    assert await harness.count("notification_channel_send", "user_id = 5 AND outcome = 'WITHDRAWN'") == 3
    assert await harness.count("notification_channel_send", "user_id = 5 AND is_sent IS NULL") == 3


async def test_a_request_is_resolved_by_the_next_version_only(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        reservation_id, first = await request_reservation(harness)
        for version in (2, 3):
            changed = data(reservation_id, actor=ANNA, action="CUSTOM")
            await harness.publish(message(EventType.RESERVATION_CHANGED, changed, version=version))
            await eventually(partial(harness.processed, version))
        await eventually(lambda: len(frames_of(frames, "resolved")) == 2)
    second = await harness.pool.fetchval(
        "SELECT id FROM event_notification WHERE audience = 'RESTAURANT' AND aggregate_version = 2"
    )
    assert [frame["eventNotificationId"] for _, frame in frames_of(frames, "resolved")] == [first, second]
