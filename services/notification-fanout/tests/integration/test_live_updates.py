"""What everyone's screen shows when somebody acted or read, and what is not sent any more."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from tablebell.events import Actor, EventType, NotificationData
from tablebell.people import Audience, UserType
from tablebell.rabbit import OutgoingMessage
from tablebell.testing import eventually

from .harness import Stage, data, frames_of, message, requested

MARCO = Actor(user_type=UserType.RESTAURANT_USER, user_id=51, name="Marco Riva")
ANNA = Actor(user_type=UserType.CUSTOMER, user_id=5, name="Anna Bianchi")
STAFF = ("RESTAURANT_USER:50", "RESTAURANT_USER:51", "RESTAURANT_USER:52")


def about_notification(event_type: EventType, **given: Any) -> OutgoingMessage:
    payload = NotificationData(at=datetime.now(UTC), **given).model_dump(mode="json", by_alias=True)
    return message(event_type, payload, aggregate=("notification", 1))


async def asked(stage: Stage) -> tuple[int, int]:
    """A question to restaurant 10 has gone out: the reservation and the shared notification."""
    reservation_id = await stage.reserve()
    await stage.tell(requested(reservation_id))
    await eventually(lambda: stage.processed(1))
    question = await stage.pool.fetchval("SELECT id FROM event_notification WHERE audience = 'RESTAURANT'")
    return reservation_id, question


async def test_a_decision_reaches_every_member_of_staff_and_withdraws_what_was_not_sent(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        reservation_id, question = await asked(stage)
        await stage.pool.execute(
            "UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT'"
            " WHERE user_id = 50 AND channel_type = 'EMAIL'"
        )
        decided = data(reservation_id, status="ACCEPTED", actor=MARCO, action="CONFIRMED")
        await stage.tell(message(EventType.RESERVATION_ACCEPTED, decided, version=2))
        await eventually(lambda: frames_of(frames, "resolved"))
        await eventually(lambda: stage.processed(2))
    ((to, frame),) = frames_of(frames, "resolved")
    assert to == STAFF
    assert frame["eventNotificationId"] == question
    assert (frame["action"], frame["actorId"], frame["actorName"]) == ("CONFIRMED", 51, "Marco Riva")
    withdrawn = (
        "user_type = 'RESTAURANT_USER' AND outcome = 'WITHDRAWN' AND last_error = 'handled by Marco Riva (CONFIRMED)'"
    )
    assert await stage.count("notification_channel_send", withdrawn) == 8
    assert await stage.count("notification_channel_send", "outcome = 'SENT'") == 1
    # Admins are not told of an acceptance, so that nothing supersedes the request.
    assert await stage.count("notification_channel_send", "user_type = 'ADMIN_USER' AND is_sent IS NOT NULL") == 0


async def test_who_has_left_the_restaurant_sees_nothing_of_what_happens_there(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        reservation_id, question = await asked(stage)
        await stage.pool.execute("UPDATE restaurant_users SET restaurant_id = 11 WHERE id = 50")
        read = about_notification(
            EventType.NOTIFICATION_READ,
            audience=Audience.RESTAURANT,
            actor=MARCO,
            event_notification_id=question,
            shared=True,
        )
        decided = data(reservation_id, status="ACCEPTED", actor=MARCO, action="CONFIRMED")
        await stage.tell(read, message(EventType.RESERVATION_ACCEPTED, decided, version=2))
        await eventually(lambda: frames_of(frames, "resolved") and frames_of(frames, "read"))
    for kind in ("resolved", "read"):
        assert [to for to, _ in frames_of(frames, kind)] == [STAFF[1:]]


async def test_a_customers_cancellation_settles_what_staff_had_open(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        reservation_id, question = await asked(stage)
        cancelled = data(reservation_id, status="CANCELLED", actor=ANNA, action="CUSTOM")
        await stage.tell(message(EventType.RESERVATION_CANCELLED, cancelled, version=2))
        await eventually(lambda: frames_of(frames, "resolved"))
        await eventually(lambda: stage.processed(2))
    ((to, frame),) = frames_of(frames, "resolved")
    assert (to, frame["eventNotificationId"], frame["actorName"]) == (STAFF, question, "Anna Bianchi")
    asked_rows = (
        "notification_id IN (SELECT id FROM notification_restaurant WHERE event_notification_id = "
        f"{question}) AND outcome = 'WITHDRAWN'"
    )
    assert await stage.count("notification_channel_send", asked_rows) == 9


async def test_who_decided_is_told_by_the_action_that_won_and_not_by_the_event(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        reservation_id, _ = await asked(stage)
        await stage.pool.execute(
            "INSERT INTO notification_action (reservation_id, reservation_version, actor_id, actor_type, action_type,"
            " first_to_act) VALUES ($1, 1, 52, 'RESTAURANT_USER', 'DISMISSED', true)",
            reservation_id,
        )
        decided = data(reservation_id, status="ACCEPTED", actor=MARCO, action="CONFIRMED")
        await stage.tell(message(EventType.RESERVATION_ACCEPTED, decided, version=2))
        await eventually(lambda: frames_of(frames, "resolved"))
    ((_, frame),) = frames_of(frames, "resolved")
    assert (frame["action"], frame["actorName"]) == ("DISMISSED", "Sofia Costa")


async def test_a_notification_that_was_dismissed_is_shown_as_such_to_all(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        _, question = await asked(stage)
        dismissed = about_notification(
            EventType.NOTIFICATION_RESOLVED,
            audience=Audience.RESTAURANT,
            actor=MARCO,
            action="DISMISSED",
            event_notification_id=question,
            shared=True,
        )
        await stage.tell(dismissed)
        await eventually(lambda: frames_of(frames, "resolved"))
        await eventually(lambda: stage.processed(2))
    ((to, frame),) = frames_of(frames, "resolved")
    assert (to, frame["action"]) == (STAFF, "DISMISSED")
    assert await stage.count("notification_channel_send", "outcome = 'WITHDRAWN'") == 9


async def test_what_one_read_of_a_shared_notification_is_read_on_all_their_screens(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        _, question = await asked(stage)
        read = about_notification(
            EventType.NOTIFICATION_READ,
            audience=Audience.RESTAURANT,
            actor=MARCO,
            event_notification_id=question,
            shared=True,
        )
        await stage.tell(read)
        await eventually(lambda: frames_of(frames, "read"))
        await eventually(lambda: stage.processed(2))
    ((to, frame),) = frames_of(frames, "read")
    assert to == STAFF
    assert (frame["eventNotificationId"], frame["readByUserId"]) == (question, 51)


async def test_what_concerns_one_reader_reaches_their_own_tabs_only(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        read = about_notification(EventType.NOTIFICATION_READ, audience=Audience.CUSTOMER, actor=ANNA, up_to_id=99)
        await stage.tell(read)
        await eventually(lambda: frames_of(frames, "read"))
        await eventually(lambda: stage.processed(1))
    ((to, frame),) = frames_of(frames, "read")
    assert (to, frame["upToId"], frame["notificationIds"]) == (("CUSTOMER:5",), 99, None)


async def test_a_reminder_that_waits_is_withdrawn_when_the_reservation_is_cancelled(stage: Stage) -> None:
    async with stage.replica():
        reservation_id = await stage.reserve(status="ACCEPTED", version=2)
        reminder = data(reservation_id, status="ACCEPTED", reminder="2h")
        await stage.tell(message(EventType.RESERVATION_REMINDER_DUE, reminder, version=2))
        await eventually(lambda: stage.processed(1))
        await stage.tell(message(EventType.RESERVATION_CANCELLED, data(reservation_id, actor=ANNA), version=3))
        await eventually(lambda: stage.processed(2))
    assert await stage.count("notification_channel_send", "user_id = 5 AND outcome = 'WITHDRAWN'") == 3
    assert await stage.count("notification_channel_send", "user_id = 5 AND is_sent IS NULL") == 3


async def test_a_question_is_settled_by_the_next_move_and_not_again_by_the_one_after_it(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        reservation_id, first = await asked(stage)
        for version in (2, 3):
            changed = data(reservation_id, actor=ANNA, action="CUSTOM")
            await stage.tell(message(EventType.RESERVATION_CHANGED, changed, version=version))
            await eventually(partial(stage.processed, version))
        await eventually(lambda: len(frames_of(frames, "resolved")) == 2)
    second = await stage.pool.fetchval(
        "SELECT id FROM event_notification WHERE audience = 'RESTAURANT' AND aggregate_version = 2"
    )
    assert [frame["eventNotificationId"] for _, frame in frames_of(frames, "resolved")] == [first, second]
