"""The expander: its L2 rows and live frames, and its state after a crash or an outage."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from notification_fanout import listener
from notification_fanout.__main__ import PARTITION_NAMESPACE, on_acquired
from notification_fanout.expander import Expander
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.recipient_limits import RecipientLimits
from tablebell.events import EventType
from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES
from tablebell.outbox import Level, OutboxTable
from tablebell.partitions import PARTITIONS, Partitions
from tablebell.people import Audience
from tablebell.rabbit import Broker, OutgoingMessage
from tablebell.retry import RetryPolicy
from tablebell.testing import eventually
from tablebell.wakeups import Wakeup, WakeupListener, WakeupSender

from .harness import Harness, data, delivered, frames_of, message, requested


@asynccontextmanager
async def expander(
    harness: Harness,
    broker: Broker | None = None,
    statements: list[str] | None = None,
    limits: RecipientLimits = RecipientLimits(),  # noqa: B008 (immutable)
) -> AsyncIterator[Expander]:
    """An expander that owns every partition and has the database role of the service."""
    url, stop = harness.database.url_of("notification_fanout"), Stop()
    partitions = Partitions(url, "test", PARTITION_NAMESPACE, on_acquired, Wakeup())
    owning = asyncio.create_task(partitions.run(stop))
    async with harness.observed_pool([] if statements is None else statements) as pool:
        await eventually(lambda: len(partitions.owned) == PARTITIONS)
        yield Expander(
            pool,
            FramePublisher(broker or harness.broker),
            WakeupSender(harness.pool),
            partitions,
            batch_size=500,
            lease=timedelta(seconds=30),
            retry=RetryPolicy(max_attempts=2, pauses=(timedelta(0),)),
            limits=limits,
        )
        stop.request()
        await owning


async def listen(harness: Harness, *messages: OutgoingMessage, audience: Audience = Audience.RESTAURANT) -> None:
    """Let the listener create the L1 rows of these messages."""
    event_listener = listener.EventListener(audience, harness.pool, FramePublisher(harness.broker), lambda: None)
    await event_listener.handle([delivered(each) for each in messages])


async def sends(harness: Harness, user_id: int) -> dict[str, asyncpg.Record]:
    rows = await harness.pool.fetch("SELECT * FROM notification_channel_send WHERE user_id = $1", user_id)
    return {row["channel_type"]: row for row in rows}


async def prefer(harness: Harness, user_id: int, **columns: Any) -> None:
    given = {"channels": {}, "event_types": {}, "quiet_from": None, "quiet_until": None} | columns
    await harness.pool.execute(
        "INSERT INTO notification_preference (user_type, user_id, channels, event_types, quiet_from, quiet_until)"
        " VALUES ('RESTAURANT_USER', $1, $2, $3, $4, $5)",
        user_id,
        *given.values(),
    )


def around(now: datetime) -> dict[str, time]:
    """Quiet hours in Rome from an hour before `now` to an hour after it."""
    local = now.astimezone(ZoneInfo("Europe/Rome"))
    return {
        "quiet_from": (local - timedelta(hours=1)).time().replace(microsecond=0),
        "quiet_until": (local + timedelta(hours=1)).time().replace(microsecond=0),
    }


async def test_a_skipped_channel_has_a_row_with_the_reason(harness: Harness) -> None:
    await prefer(harness, 50, channels={"SMS": False}, event_types={"RESERVATION_REQUESTED": {"EMAIL": False}})
    await harness.pool.execute("UPDATE restaurant_users SET email = NULL WHERE id = 51")
    await harness.pool.execute(
        "INSERT INTO undeliverable_address (user_type, user_id, channel_type, address, reason)"
        " VALUES ('RESTAURANT_USER', 51, 'PUSH', 'demo-fcm-token-51', 'UNREGISTERED'),"
        "        ('RESTAURANT_USER', 52, 'SMS', '+39000', 'an old number')"
    )
    await listen(harness, requested(1))
    async with expander(harness) as expanding:
        await expanding.run_once()
    assert await harness.count("notification_channel_send") == 9
    first, second, third = [await sends(harness, user_id) for user_id in (50, 51, 52)]
    for row, reason in (
        (first["SMS"], "switched off"),
        (first["EMAIL"], "switched off"),
        (second["EMAIL"], "no e-mail address"),
        (second["PUSH"], "UNREGISTERED"),
    ):
        assert (row["is_sent"], row["attempt_count"], row["outcome"]) == (False, 0, "SKIPPED")
        assert reason in row["last_error"]
    for row in (first["PUSH"], second["SMS"], *third.values()):
        assert (row["is_sent"], row["outcome"], row["last_error"]) == (None, None, None)


async def test_email_and_push_use_the_stored_title_and_push_the_body(harness: Harness) -> None:
    await listen(harness, requested(1))
    await harness.pool.execute(
        "UPDATE notification SET title = 'Stored title', body = 'Stored body' WHERE user_id = 50"
    )
    async with expander(harness) as expanding:
        await expanding.run_once()
    changed, unchanged = await sends(harness, 50), await sends(harness, 51)
    assert changed["EMAIL"]["message"]["subject"] == changed["PUSH"]["message"]["title"] == "Stored title"
    assert changed["PUSH"]["message"]["body"] == "Stored body"
    assert unchanged["EMAIL"]["message"]["subject"] == "Nuova prenotazione ricevuta"


async def test_sms_and_push_wait_for_the_end_of_the_quiet_hours(harness: Harness) -> None:
    now = datetime.now(UTC)
    await prefer(harness, 50, **around(now))
    await listen(harness, requested(1))
    async with expander(harness) as expanding:
        await expanding.run_once()
    rows = await sends(harness, 50)
    assert rows["EMAIL"]["next_attempt_at"] < now + timedelta(minutes=5)
    for channel in ("SMS", "PUSH"):
        assert timedelta(minutes=50) < rows[channel]["next_attempt_at"] - now < timedelta(minutes=70)
        assert rows[channel]["is_sent"] is None


async def test_a_last_minute_cancellation_ignores_quiet_hours(harness: Harness) -> None:
    now = datetime.now(UTC)
    await prefer(harness, 50, **around(now))
    late = data(1, slot_time=now + timedelta(minutes=90))
    await listen(harness, message(EventType.RESERVATION_CANCELLED, late))
    async with expander(harness) as expanding:
        await expanding.run_once()
    assert (await sends(harness, 50))["SMS"]["next_attempt_at"] < now + timedelta(minutes=5)


async def test_a_send_that_expires_during_quiet_hours_is_skipped(harness: Harness) -> None:
    now = datetime.now(UTC)
    await harness.pool.execute(
        "INSERT INTO notification_preference (user_type, user_id, quiet_from, quiet_until)"
        " VALUES ('CUSTOMER', 5, $1, $2)",
        *around(now).values(),
    )
    soon = data(1, slot_time=now + timedelta(minutes=40), reminder="2h", status="ACCEPTED")
    await listen(harness, message(EventType.RESERVATION_REMINDER_DUE, soon), audience=Audience.CUSTOMER)
    async with expander(harness) as expanding:
        await expanding.run_once()
    rows = await sends(harness, 5)
    assert rows["EMAIL"]["is_sent"] is None
    assert rows["SMS"]["outcome"] == rows["PUSH"]["outcome"] == "SKIPPED"
    assert "quiet hours" in rows["SMS"]["last_error"]


async def act(harness: Harness, reservation_id: int, connection: Any = None) -> None:
    await (connection or harness.pool).execute(
        "INSERT INTO notification_action (reservation_id, reservation_version, actor_id, actor_type, action_type,"
        " first_to_act) VALUES ($1, 1, 51, 'RESTAURANT_USER', 'CONFIRMED', true)",
        reservation_id,
    )


async def test_a_request_resolved_before_its_expansion_is_withdrawn_and_its_frame_shows_the_resolution(
    harness: Harness,
) -> None:
    reservation_id = await harness.reserve()
    await listen(harness, requested(reservation_id))
    await act(harness, reservation_id)
    async with harness.live_updates() as frames, expander(harness) as expanding:
        await expanding.run_once()
        await eventually(lambda: len(frames) == 3)
    outcomes = await harness.pool.fetch("SELECT is_sent, outcome, last_error FROM notification_channel_send")
    assert {tuple(row) for row in outcomes} == {(False, "WITHDRAWN", "handled by Marco Riva (CONFIRMED)")}
    assert len(outcomes) == 9
    for _, frame in frames_of(frames, "notification"):
        assert frame["resolution"]["actorName"] == "Marco Riva"
        assert frame["resolution"]["action"] == "CONFIRMED"
        assert frame["actions"] == []


async def test_the_expansion_waits_for_a_concurrent_decision(harness: Harness) -> None:
    reservation_id = await harness.reserve()
    await listen(harness, requested(reservation_id))
    async with expander(harness) as expanding:
        async with harness.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT FROM event_notification FOR UPDATE")
            expansion = asyncio.create_task(expanding.run_once())
            await eventually(lambda: harness.count("pg_stat_activity", "wait_event_type = 'Lock'"))
            await act(harness, reservation_id, connection)
        await expansion
    assert await harness.count("notification_channel_send", "outcome = 'WITHDRAWN'") == 9


async def test_a_request_of_an_earlier_version_is_withdrawn_even_without_a_decision(harness: Harness) -> None:
    reservation_id = await harness.reserve(version=2)
    await listen(harness, requested(reservation_id))
    async with expander(harness) as expanding:
        await expanding.run_once()
    assert await harness.count("notification_channel_send", "outcome = 'WITHDRAWN'") == 9


async def test_a_recipient_who_has_left_the_restaurant_or_agency_gets_nothing(harness: Harness) -> None:
    reservation_id = await harness.reserve()
    for audience in (Audience.RESTAURANT, Audience.AGENCY):
        await listen(harness, requested(reservation_id), audience=audience)
    await harness.pool.execute("INSERT INTO agency (id, name) VALUES (8, 'Another')")
    await harness.pool.execute("UPDATE restaurant_users SET restaurant_id = 11 WHERE id = 50")
    await harness.pool.execute("UPDATE agency_users SET agency_id = 8 WHERE id = 70")
    async with harness.live_updates() as frames, expander(harness) as expanding:
        await expanding.run_once()
        await eventually(lambda: len(frames) == 2)
    assert [to for to, _ in frames_of(frames, "notification")] == [("RESTAURANT_USER:51",), ("RESTAURANT_USER:52",)]
    left = await harness.pool.fetch(
        "SELECT user_id, outcome, last_error FROM notification_channel_send WHERE is_sent IS NOT NULL"
    )
    assert {tuple(row) for row in left} == {
        (50, "WITHDRAWN", "the recipient has left the restaurant"),
        (70, "WITHDRAWN", "the recipient has left the agency"),
    }
    assert await harness.count("notification_channel_send", "is_sent IS NULL") == 6


async def test_without_rabbitmq_the_durable_channels_continue_and_the_frames_follow_later(harness: Harness) -> None:
    disconnected = Broker(harness.amqp_url, "never connected")
    await listen(harness, requested(1))
    async with expander(harness, disconnected) as expanding:
        await expanding.run_once()
    assert await harness.count("notification_channel_send", "is_sent IS NULL") == 9
    assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 3
    assert await harness.count("live_frame") == 1
    async with harness.live_updates() as frames, harness.replica():
        await eventually(lambda: len(frames) == 3)
        await eventually(lambda: harness.is_empty("live_frame"))
    assert await harness.count("notification_channel_send") == 9


async def test_the_overdue_time_counts_from_the_first_due_time_of_a_failing_row(harness: Harness) -> None:
    await harness.pool.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON notification_channel_send FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    await listen(harness, requested(1))
    await harness.pool.execute("UPDATE notification_outbox SET available_at = now() - interval '1 hour'")
    async with expander(harness) as expanding:
        await expanding.run_once()
    assert await harness.count("notification_outbox", "status = 'FAILED'") == 3
    await harness.pool.execute("UPDATE notification_outbox SET available_at = now() + interval '1 minute'")
    (delay,) = await OutboxTable(Level.NOTIFICATION).measure_delays(harness.pool)
    assert delay.overdue_seconds == pytest.approx(3600, abs=30)


async def test_a_crash_between_the_frames_and_the_commit_repeats_the_frames(
    harness: Harness,
) -> None:
    await harness.pool.execute(
        "CREATE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'crash at the commit'; END $$;"
        "CREATE CONSTRAINT TRIGGER crash AFTER INSERT ON notification_channel_send DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION crash()"
    )
    await listen(harness, requested(1))
    async with harness.live_updates() as frames, expander(harness) as expanding:
        with pytest.raises(asyncpg.RaiseError, match="crash at the commit"):
            await expanding.run_once()
        await eventually(lambda: len(frames) == 6)  # the batch, and its repetition row by row
        assert await harness.count("notification_channel_send") == 0
        assert await harness.count("notification_outbox", "status = 'PENDING'") == 3
        await harness.pool.execute("DROP TRIGGER crash ON notification_channel_send")
        await expanding.run_once()
        await eventually(lambda: len(frames) == 9)
    assert await harness.count("notification_channel_send") == 9
    assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 3


async def test_expanding_a_row_again_changes_nothing(harness: Harness) -> None:
    await listen(harness, requested(1))
    async with expander(harness) as expanding:
        await expanding.run_once()
        before = await harness.pool.fetch("SELECT * FROM notification_channel_send ORDER BY id")
        await harness.pool.execute("UPDATE notification_outbox SET status = 'PENDING'")
        await expanding.run_once()
    assert await harness.pool.fetch("SELECT * FROM notification_channel_send ORDER BY id") == before


async def test_a_row_that_cannot_be_expanded_fails_alone_and_is_finally_buried(harness: Harness) -> None:
    await listen(harness, requested(1), requested(2), requested(3))
    await harness.pool.execute("UPDATE event_notification SET properties = '{}' WHERE reservation_id = 2")
    await harness.pool.execute("DELETE FROM notification WHERE user_id = 50 AND event_notification_id = 1")
    async with expander(harness) as expanding:
        await expanding.run_once()
        assert await harness.count("notification_outbox", "status = 'FAILED' AND retry_count = 1") == 3
        assert (
            await harness.count("notification_outbox", "status = 'DEAD' AND last_error LIKE '%no longer exists'") == 1
        )
        assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 5
        await expanding.run_once()
    assert await harness.count("notification_outbox", "status = 'DEAD'") == 4
    assert await harness.count("notification_channel_send") == 15


async def refuse(harness: Harness, condition: str) -> None:
    """Make the database refuse updates of L1 row 2 that match the condition."""
    await harness.pool.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
    )
    await harness.pool.execute(
        f"""CREATE TRIGGER refuse BEFORE UPDATE ON notification_outbox FOR EACH ROW
            WHEN (NEW.id = 2 AND {condition}) EXECUTE FUNCTION refuse()"""
    )


@pytest.mark.parametrize(
    ("refused", "status", "error"),
    [
        ("NEW.status = 'PROCESSING'", "DEAD", "the row could not be claimed: RaiseError: refused"),
        ("NEW.status = 'PUBLISHED'", "DEAD", "RaiseError: refused"),
        ("NEW.status IN ('PUBLISHED', 'FAILED')", "DEAD", "RaiseError: refused"),
        ("NEW.status IN ('PUBLISHED', 'FAILED', 'DEAD')", "PROCESSING", None),
        ("NEW.status IN ('PROCESSING', 'DEAD')", "PENDING", None),
    ],
    ids=["claim", "complete", "complete and fail", "complete, fail and bury", "claim and bury"],
)
async def test_a_row_that_the_database_refuses_blocks_no_other_row(
    harness: Harness, refused: str, status: str, error: str | None
) -> None:
    await listen(harness, requested(1), requested(2))
    await refuse(harness, refused)
    async with expander(harness) as expanding:
        await expanding.run_once()
        await expanding.run_once()
        row = await harness.pool.fetchrow("SELECT status, last_error FROM notification_outbox WHERE id = 2")
        assert row is not None
        assert tuple(row) == (status, error)
        assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 5
        await listen(harness, requested(3))
        await expanding.run_once()
    assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 8


async def test_a_missing_privilege_counts_no_attempt(harness: Harness) -> None:
    await listen(harness, requested(1), requested(2))
    await harness.pool.execute("REVOKE INSERT ON notification_channel_send FROM tablebell_notification_fanout")
    async with expander(harness) as expanding:
        for _ in range(3):
            with pytest.raises(OUTAGES):
                await expanding.run_once()
        assert await harness.count("notification_outbox", "status = 'PENDING' AND retry_count = 0") == 6
        await harness.pool.execute("GRANT INSERT ON notification_channel_send TO tablebell_notification_fanout")
        await expanding.run_once()
    assert await harness.count("notification_outbox", "status = 'PUBLISHED'") == 6


async def test_a_batch_takes_as_many_statements_for_many_rows_as_for_one(harness: Harness) -> None:
    statements: list[str] = []
    counts = []
    async with expander(harness, statements=statements) as expanding:
        for numbers in (range(1, 2), range(2, 3), range(3, 43)):
            await listen(harness, *(requested(number) for number in numbers))
            statements.clear()
            await expanding.run_once()
            counts.append(len(statements))
    _, one, many = counts  # the first batch also looks up parameter types
    assert many == one == 10, statements
    assert await harness.count("notification_channel_send") == 42 * 9


async def test_new_l2_rows_are_announced(harness: Harness, stop: Stop) -> None:
    wakeup_listener = WakeupListener(harness.database.url, "test")
    wakeup = wakeup_listener.subscribe(Level.CHANNEL_SEND)
    listening = asyncio.create_task(wakeup_listener.run(stop))
    await eventually(lambda: wakeup_listener.connected)
    assert await wakeup.wait(5, stop)  # every new connection starts with a wake-up
    await listen(harness, requested(1))
    async with expander(harness) as expanding:
        await expanding.run_once()
        assert await wakeup.wait(5, stop)
    stop.request()
    await listening
