"""The reference scenario, and the audiences of each event."""

from datetime import timedelta

import pytest

from notification_fanout.language import language_of
from tablebell.audience import AUDIENCES, ONLY_IF_BY
from tablebell.events import Actor, EventType
from tablebell.people import Audience, UserType
from tablebell.testing import eventually

from .harness import SLOT, Harness, data, frames_of, message, requested

RECIPIENTS = {Audience.RESTAURANT: 3, Audience.CUSTOMER: 1, Audience.ADMIN: 2, Audience.AGENCY: 1}


async def test_one_reservation_reaches_seven_recipients_by_all_their_channels(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        await harness.publish(requested(1))
        await eventually(lambda: harness.processed(1))
        await eventually(lambda: len(frames) == 7)
    assert await harness.count("notification_restaurant") == 3
    assert await harness.count("notification") == 7
    assert await harness.count("notification_outbox", "notification_type = 'RESTAURANT' AND status = 'PUBLISHED'") == 3
    assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 7
    assert await harness.count("notification_channel_send", "user_type = 'RESTAURANT_USER' AND is_sent IS NULL") == 9
    by_channel = await harness.pool.fetch(
        "SELECT user_type, channel_type, count(*) FROM notification_channel_send GROUP BY 1, 2 ORDER BY 1, 2"
    )
    assert [tuple(row) for row in by_channel] == [
        ("ADMIN_USER", "EMAIL", 2),
        ("ADMIN_USER", "SLACK", 2),
        ("AGENCY_USER", "EMAIL", 1),
        ("CUSTOMER", "EMAIL", 1),
        ("CUSTOMER", "PUSH", 1),
        ("CUSTOMER", "SMS", 1),
        ("RESTAURANT_USER", "EMAIL", 3),
        ("RESTAURANT_USER", "PUSH", 3),
        ("RESTAURANT_USER", "SMS", 3),
    ]


async def test_texts_are_in_the_language_of_the_recipient_and_rows_contain_everything_for_sending(
    harness: Harness,
) -> None:
    async with harness.replica():
        await harness.publish(requested(17))
        await eventually(lambda: harness.processed(1))
    titles = await harness.pool.fetch("SELECT user_id, title FROM notification_restaurant ORDER BY user_id")
    assert [tuple(row) for row in titles] == [
        (50, "Nuova prenotazione ricevuta"),
        (51, "Nuova prenotazione ricevuta"),
        (52, "New reservation received"),
    ]
    row = await harness.pool.fetchrow(
        "SELECT * FROM notification_channel_send WHERE user_id = 52 AND channel_type = 'EMAIL'"
    )
    assert row is not None
    assert row["recipient"] == "sofia.costa@porto.example"
    assert row["message"]["subject"] == "New reservation received"
    assert row["message"]["greeting"] == "Hello Sofia Costa,"
    assert ["Guest", "Anna Bianchi"] in row["message"]["facts"]
    guest = await harness.pool.fetchval(
        "SELECT message FROM notification_channel_send WHERE user_type = 'CUSTOMER' AND channel_type = 'EMAIL'"
    )
    assert guest["sender_name"] == "Trattoria del Porto"
    assert guest["letterhead"]["phone"] == "+390105550110"
    assert "+390105550110" in guest["contact"]
    assert row["headers"]["correlation_id"] == "test"
    assert row["restaurant_id"] == 10
    assert row["not_after"] == SLOT
    push = await harness.pool.fetchval(
        "SELECT message FROM notification_channel_send WHERE user_id = 52 AND channel_type = 'PUSH'"
    )
    assert push["data"]["reservationId"] == "17"
    slack = await harness.pool.fetch("SELECT recipient FROM notification_channel_send WHERE channel_type = 'SLACK'")
    assert {row["recipient"] for row in slack} == {"#ops"}
    assert await harness.pool.fetchval("SELECT DISTINCT partition FROM notification_outbox") == 1


@pytest.mark.parametrize("event_type", [each for each, audiences in AUDIENCES.items() if audiences])
async def test_an_event_notifies_the_audiences_of_the_contract(harness: Harness, event_type: EventType) -> None:
    async with harness.replica():
        await harness.publish(message(event_type, data(1, reminder="2h"), version=2))
        await eventually(lambda: harness.processed(1))
    rows = await harness.pool.fetch("SELECT notification_type, count(*) FROM notification_outbox GROUP BY 1")
    # Nobody caused this acceptance, so the guest did not accept a proposed time: see the next test.
    expected = set(AUDIENCES[event_type]) - {audience for event, audience in ONLY_IF_BY if event == event_type}
    assert {row[0]: row[1] for row in rows} == {audience: RECIPIENTS[audience] for audience in expected}


@pytest.mark.parametrize(
    ("user_type", "is_told"),
    [(UserType.CUSTOMER, True), (UserType.AGENCY_USER, True), (UserType.RESTAURANT_USER, False)],
)
async def test_staff_are_notified_of_an_acceptance_by_the_guest_and_not_of_their_own(
    harness: Harness, user_type: UserType, is_told: bool
) -> None:
    actor = Actor(user_type=user_type, user_id=5, name="Anna Bianchi")
    accepted = data(1, status="ACCEPTED", previous_slot_time=SLOT - timedelta(hours=1), actor=actor, action="CONFIRMED")
    async with harness.replica():
        await harness.publish(message(EventType.RESERVATION_ACCEPTED, accepted, version=3))
        await eventually(lambda: harness.processed(1))
    rows = await harness.pool.fetch("SELECT title, body FROM notification_restaurant WHERE user_id = 52")
    when = language_of("en").when(SLOT, "Europe/Rome")
    assert len(rows) == is_told
    assert await harness.count("notification_channel_send", "user_type = 'RESTAURANT_USER'") == 9 * is_told
    for row in rows:
        assert row["title"] == "Anna Bianchi accepts the suggested time"
        assert when in row["body"], "the accepted time is the time of the table"
    mail = await harness.pool.fetchval(
        "SELECT message -> 'facts' FROM notification_channel_send WHERE user_id = 52 AND channel_type = 'EMAIL'"
    )
    assert (mail is None) or ["When", when] in mail


async def test_a_reservation_without_an_agency_notifies_no_agency(harness: Harness) -> None:
    async with harness.replica():
        await harness.publish(requested(1, agency_id=None, customer_id=6))
        await eventually(lambda: harness.processed(1))
    assert await harness.count("notification_agency") == 0
    assert await harness.count("event_notification", "audience = 'AGENCY'") == 0
    assert await harness.count("notification") == 6


async def test_each_audience_sees_only_its_fields(harness: Harness) -> None:
    marco = Actor(user_type=UserType.RESTAURANT_USER, user_id=51, name="Marco Riva")
    reservation = data(1, note="peanut allergy", actor=marco, action="REJECTED", status="CANCELLED")
    async with harness.live_updates() as frames, harness.replica():
        await harness.publish(
            message(EventType.RESERVATION_CANCELLED, reservation | {"unknownField": "secret"}, version=2)
        )
        await eventually(lambda: len(frames) == 7)
        await eventually(lambda: harness.processed(1))
    rows = await harness.pool.fetch("SELECT audience, properties FROM event_notification")
    stored = {row["audience"]: row["properties"] for row in rows}
    live = {to.rpartition(":")[0]: frame["properties"] for (to,), frame in frames_of(frames, "notification")}
    for audience in Audience:
        assert live[audience.user_type] == stored[audience]
        assert stored[audience]["customerName"] == "Anna Bianchi"
    assert {audience for audience, fields in stored.items() if "peanut" in str(fields)} == {"RESTAURANT", "CUSTOMER"}
    assert {audience for audience, fields in stored.items() if "Marco" in str(fields)} == {"RESTAURANT", "ADMIN"}
    assert "secret" not in str(stored)
    sends = await harness.pool.fetch("SELECT user_type, message FROM notification_channel_send")
    assert {row["user_type"] for row in sends if "peanut" in str(row["message"])} == {"RESTAURANT_USER", "CUSTOMER"}


async def test_a_live_frame_equals_the_notification_in_the_inbox(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        await harness.publish(requested(1))
        await eventually(lambda: len(frames) == 7)
    ((_, frame),) = [each for each in frames_of(frames, "notification") if each[0] == ("RESTAURANT_USER:50",)]
    row = await harness.pool.fetchrow(
        "SELECT n.*, e.properties AS data FROM notification AS n JOIN event_notification AS e"
        " ON e.id = n.event_notification_id WHERE user_id = 50"
    )
    assert row is not None
    assert (frame["id"], frame["title"], frame["body"]) == (row["id"], row["title"], row["body"])
    assert frame["eventNotificationId"] == row["event_notification_id"]
    assert frame["properties"] == row["data"]
    assert frame["properties"]["customerName"] == "Anna Bianchi"
    assert frame["shared"] is True
    assert frame["actions"] == ["CONFIRMED", "REJECTED", "POSTPONED", "DISMISSED"]
    assert frame["isRead"] is False
    assert frame["resolution"] is None
