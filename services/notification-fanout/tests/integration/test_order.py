"""What a later version has superseded is withdrawn, for everybody who is told of the later one."""

from datetime import UTC, datetime
from functools import partial

import asyncpg
import pytest

from tablebell.events import EventType
from tablebell.people import Audience
from tablebell.testing import eventually

from .harness import Stage, data, message, requested
from .test_expander import around, expander, tell

NIGHT = (
    (EventType.RESERVATION_ACCEPTED, "ACCEPTED"),
    (EventType.RESERVATION_CHANGED, "NOT_ACCEPTED"),
    (EventType.RESERVATION_ACCEPTED, "ACCEPTED"),
    (EventType.RESERVATION_CANCELLED, "CANCELLED"),
)


async def sends(stage: Stage, where: str) -> list[asyncpg.Record]:
    return await stage.pool.fetch(f"SELECT * FROM notification_channel_send WHERE {where} ORDER BY id")


async def test_after_a_night_of_changes_one_sms_is_left_and_it_is_true(stage: Stage) -> None:
    quiet = around(datetime.now(UTC))
    await stage.pool.execute(
        "INSERT INTO notification_preference (user_type, user_id, quiet_from, quiet_until)"
        " VALUES ('CUSTOMER', 5, $1, $2)",
        *quiet.values(),
    )
    async with stage.replica():
        reservation_id = await stage.reserve()
        for version, (event_type, status) in enumerate(NIGHT, start=2):
            await stage.tell(message(event_type, data(reservation_id, status=status), version=version))
            await eventually(partial(stage.processed, version - 1))
    rows = await sends(stage, "user_type = 'CUSTOMER' AND channel_type = 'SMS'")
    assert [(row["aggregate_version"], row["outcome"], row["last_error"]) for row in rows] == [
        (2, "WITHDRAWN", "superseded by RESERVATION_CHANGED (version 3)"),
        (3, "WITHDRAWN", "superseded by RESERVATION_ACCEPTED (version 4)"),
        (4, "WITHDRAWN", "superseded by RESERVATION_CANCELLED (version 5)"),
        (5, None, None),
    ]
    assert {row["reservation_id"] for row in rows} == {reservation_id}


@pytest.mark.parametrize("user_type", ["CUSTOMER", "AGENCY_USER", "ADMIN_USER", "RESTAURANT_USER"])
async def test_everybody_who_is_told_of_the_later_version_is_spared_the_earlier_one(
    stage: Stage, user_type: str
) -> None:
    async with stage.replica():
        reservation_id = await stage.reserve()
        await stage.tell(requested(reservation_id))
        await eventually(lambda: stage.processed(1))
        await stage.tell(message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=2))
        await eventually(lambda: stage.processed(2))
    rows = await sends(stage, f"user_type = '{user_type}'")
    assert {(row["aggregate_version"], row["outcome"]) for row in rows} == {(1, "WITHDRAWN"), (2, None)}


async def test_who_is_not_told_of_the_later_version_still_hears_of_the_earlier_one(stage: Stage) -> None:
    async with stage.replica():
        reservation_id = await stage.reserve()
        await stage.tell(requested(reservation_id))
        await eventually(lambda: stage.processed(1))
        await stage.tell(message(EventType.RESERVATION_ACCEPTED, data(reservation_id, status="ACCEPTED"), version=2))
        await eventually(lambda: stage.processed(2))
    assert {row["outcome"] for row in await sends(stage, "user_type = 'ADMIN_USER'")} == {None}


async def test_a_row_that_a_dispatcher_holds_keeps_its_lease_and_a_dead_one_stays_dead(stage: Stage) -> None:
    async with stage.replica():
        reservation_id = await stage.reserve()
        await stage.tell(requested(reservation_id))
        await eventually(lambda: stage.processed(1))
        await stage.pool.execute(
            "UPDATE notification_channel_send SET lease_token = gen_random_uuid(),"
            " lease_until = now() + interval '1 minute' WHERE user_type = 'CUSTOMER' AND channel_type = 'SMS'"
        )
        await stage.pool.execute(
            "UPDATE notification_channel_send SET is_sent = false, outcome = 'EXHAUSTED', last_error = 'HTTP 500'"
            " WHERE user_type = 'CUSTOMER' AND channel_type = 'PUSH'"
        )
        await stage.tell(message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=2))
        await eventually(lambda: stage.processed(2))
    rows = await sends(stage, "user_type = 'CUSTOMER' AND aggregate_version = 1")
    reason = "superseded by RESERVATION_CANCELLED (version 2)"
    found = {row["channel_type"]: (row["outcome"], row["last_error"], row["lease_token"] is not None) for row in rows}
    assert found == {
        "EMAIL": ("WITHDRAWN", reason, False),
        "SMS": (None, reason, True),
        "PUSH": ("EXHAUSTED", "HTTP 500", False),
    }
    assert {row["withdrawn_because"] for row in rows} == {reason}


async def test_what_is_expanded_after_a_later_version_is_written_as_withdrawn(stage: Stage) -> None:
    reservation_id = await stage.reserve()
    await tell(stage, requested(reservation_id), audience=Audience.CUSTOMER)
    # Its expansion fails for now: the later version is expanded first.
    await stage.pool.execute("UPDATE notification_outbox SET available_at = now() + interval '1 hour'")
    cancelled = message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=2)
    await tell(stage, cancelled, audience=Audience.CUSTOMER)
    async with expander(stage) as expanding:
        await expanding.run_once()
        await stage.pool.execute("UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT'")
        await stage.pool.execute("UPDATE notification_outbox SET available_at = now() - interval '1 s'")
        await expanding.run_once()
    rows = await sends(stage, "aggregate_version = 1")
    assert len(rows) == 3
    assert {(row["is_sent"], row["outcome"], row["last_error"]) for row in rows} == {
        (False, "WITHDRAWN", "superseded by RESERVATION_CANCELLED (version 2)")
    }


async def test_a_reminder_supersedes_nothing_and_is_superseded_by_a_later_version(stage: Stage) -> None:
    reservation_id = await stage.reserve(status="ACCEPTED", version=2)
    accepted = data(reservation_id, status="ACCEPTED")
    async with stage.replica():
        await stage.tell(message(EventType.RESERVATION_ACCEPTED, accepted, version=2))
        await eventually(lambda: stage.processed(1))
        await stage.tell(message(EventType.RESERVATION_REMINDER_DUE, accepted | {"reminder": "24h"}, version=2))
        await eventually(lambda: stage.processed(2))
        open_rows = await sends(stage, "user_type = 'CUSTOMER' AND is_sent IS NULL")
        assert len(open_rows) == 6
        await stage.tell(message(EventType.RESERVATION_CANCELLED, data(reservation_id), version=3))
        await eventually(lambda: stage.processed(3))
    rows = await sends(stage, "user_type = 'CUSTOMER'")
    assert [row["outcome"] for row in rows] == ["WITHDRAWN"] * 6 + [None] * 3
