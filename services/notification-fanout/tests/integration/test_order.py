"""Sends of earlier versions are withdrawn for every audience that is notified of the later version."""

from datetime import UTC, datetime
from functools import partial

import asyncpg
import pytest

from tablebell.events import EventType
from tablebell.people import Audience
from tablebell.testing import eventually

from .harness import Harness, data, message, requested
from .test_expander import around, expander, listen

CHANGES = (
    (EventType.RESERVATION_ACCEPTED, "ACCEPTED"),
    (EventType.RESERVATION_CHANGED, "NOT_ACCEPTED"),
    (EventType.RESERVATION_ACCEPTED, "ACCEPTED"),
    (EventType.RESERVATION_CANCELLED, "CANCELLED"),
)


async def sends(harness: Harness, where: str) -> list[asyncpg.Record]:
    return await harness.pool.fetch(f"SELECT * FROM notification_channel_send WHERE {where} ORDER BY id")


async def test_after_quiet_hours_with_several_changes_only_the_last_sms_is_pending(harness: Harness) -> None:
    quiet = around(datetime.now(UTC))
    await harness.pool.execute(
        "INSERT INTO notification_preference (user_type, user_id, quiet_from, quiet_until)"
        " VALUES ('CUSTOMER', 5, $1, $2)",
        *quiet.values(),
    )
    async with harness.replica():
        reservation_id = await harness.reserve()
        for version, (event_type, status) in enumerate(CHANGES, start=2):
            await harness.publish(message(event_type, data(reservation_id, status=status), version=version))
            await eventually(partial(harness.processed, version - 1))
    rows = await sends(harness, "user_type = 'CUSTOMER' AND channel_type = 'SMS'")
    assert [(row["aggregate_version"], row["outcome"], row["last_error"]) for row in rows] == [
        (2, "WITHDRAWN", "superseded by RESERVATION_CHANGED (version 3)"),
        (3, "WITHDRAWN", "superseded by RESERVATION_ACCEPTED (version 4)"),
        (4, "WITHDRAWN", "superseded by RESERVATION_CANCELLED (version 5)"),
        (5, None, None),
    ]
    assert {row["reservation_id"] for row in rows} == {reservation_id}


@pytest.mark.parametrize("user_type", ["CUSTOMER", "AGENCY_USER", "ADMIN_USER", "RESTAURANT_USER"])
async def test_the_earlier_version_is_withdrawn_for_everyone_notified_of_the_later_one(
    harness: Harness, user_type: str
) -> None:
    async with harness.replica():
        reservation_id = await harness.reserve()
        await harness.publish(requested(reservation_id))
        await eventually(lambda: harness.processed(1))
        await harness.publish(message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=2))
        await eventually(lambda: harness.processed(2))
    # The Slack message is sent once, for the first admin.
    rows = await sends(harness, f"user_type = '{user_type}' AND outcome IS DISTINCT FROM 'SKIPPED'")
    assert {(row["aggregate_version"], row["outcome"]) for row in rows} == {(1, "WITHDRAWN"), (2, None)}


async def test_the_earlier_version_stays_pending_for_an_audience_not_notified_of_the_later_one(
    harness: Harness,
) -> None:
    async with harness.replica():
        reservation_id = await harness.reserve()
        await harness.publish(requested(reservation_id))
        await eventually(lambda: harness.processed(1))
        await harness.publish(
            message(EventType.RESERVATION_ACCEPTED, data(reservation_id, status="ACCEPTED"), version=2)
        )
        await eventually(lambda: harness.processed(2))
    rows = await sends(harness, "user_type = 'ADMIN_USER' AND channel_type = 'EMAIL'")
    assert {row["outcome"] for row in rows} == {None}


async def test_a_leased_row_keeps_its_lease_and_an_exhausted_one_stays_exhausted(harness: Harness) -> None:
    async with harness.replica():
        reservation_id = await harness.reserve()
        await harness.publish(requested(reservation_id))
        await eventually(lambda: harness.processed(1))
        await harness.pool.execute(
            "UPDATE notification_channel_send SET lease_token = gen_random_uuid(),"
            " lease_until = now() + interval '1 minute' WHERE user_type = 'CUSTOMER' AND channel_type = 'SMS'"
        )
        await harness.pool.execute(
            "UPDATE notification_channel_send SET is_sent = false, outcome = 'EXHAUSTED', last_error = 'HTTP 500'"
            " WHERE user_type = 'CUSTOMER' AND channel_type = 'PUSH'"
        )
        await harness.publish(message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=2))
        await eventually(lambda: harness.processed(2))
    rows = await sends(harness, "user_type = 'CUSTOMER' AND aggregate_version = 1")
    reason = "superseded by RESERVATION_CANCELLED (version 2)"
    found = {row["channel_type"]: (row["outcome"], row["last_error"], row["lease_token"] is not None) for row in rows}
    assert found == {
        "EMAIL": ("WITHDRAWN", reason, False),
        "SMS": (None, reason, True),
        "PUSH": ("EXHAUSTED", "HTTP 500", False),
    }
    assert {row["withdrawn_because"] for row in rows} == {reason}


async def test_a_row_expanded_after_a_later_version_is_written_as_withdrawn(harness: Harness) -> None:
    reservation_id = await harness.reserve()
    await listen(harness, requested(reservation_id), audience=Audience.CUSTOMER)
    # Delay its expansion, so that the later version is expanded first.
    await harness.pool.execute("UPDATE notification_outbox SET available_at = now() + interval '1 hour'")
    cancelled = message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=2)
    await listen(harness, cancelled, audience=Audience.CUSTOMER)
    async with expander(harness) as expanding:
        await expanding.run_once()
        await harness.pool.execute("UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT'")
        await harness.pool.execute("UPDATE notification_outbox SET available_at = now() - interval '1 s'")
        await expanding.run_once()
    rows = await sends(harness, "aggregate_version = 1")
    assert len(rows) == 3
    assert {(row["is_sent"], row["outcome"], row["last_error"]) for row in rows} == {
        (False, "WITHDRAWN", "superseded by RESERVATION_CANCELLED (version 2)")
    }


async def test_a_reminder_supersedes_nothing_and_is_superseded_by_a_later_version(harness: Harness) -> None:
    reservation_id = await harness.reserve(status="ACCEPTED", version=2)
    accepted = data(reservation_id, status="ACCEPTED")
    async with harness.replica():
        await harness.publish(message(EventType.RESERVATION_ACCEPTED, accepted, version=2))
        await eventually(lambda: harness.processed(1))
        await harness.publish(message(EventType.RESERVATION_REMINDER_DUE, accepted | {"reminder": "24h"}, version=2))
        await eventually(lambda: harness.processed(2))
        open_rows = await sends(harness, "user_type = 'CUSTOMER' AND is_sent IS NULL")
        assert len(open_rows) == 6
        await harness.publish(message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=3))
        await eventually(lambda: harness.processed(3))
    rows = await sends(harness, "user_type = 'CUSTOMER'")
    assert [row["outcome"] for row in rows] == ["WITHDRAWN"] * 6 + [None] * 3
