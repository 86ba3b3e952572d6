"""From L1 to L2 and to the screens: which rows, which frames, and what a crash or an outage leaves behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from notification_fanout import listener
from notification_fanout.__main__ import PARTITION_NAMESPACE, nothing_to_free
from notification_fanout.expander import Expander
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.gauges import Gauges
from notification_fanout.metrics import OVERDUE
from tablebell.events import EventType
from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES
from tablebell.outbox import Level
from tablebell.partitions import PARTITIONS, Partitions
from tablebell.people import Audience
from tablebell.rabbit import Broker, OutgoingMessage
from tablebell.retry import RetryPolicy
from tablebell.testing import eventually
from tablebell.wakeups import Wakeup, WakeupListener, WakeupSender

from .harness import Stage, data, delivered, frames_of, message, requested


@asynccontextmanager
async def expander(
    stage: Stage, broker: Broker | None = None, statements: list[str] | None = None
) -> AsyncIterator[Expander]:
    """An expander that owns everything, with the rights of its service."""
    url, stop = stage.database.url_of("notification_fanout"), Stop()
    partitions = Partitions(url, "test", PARTITION_NAMESPACE, nothing_to_free, Wakeup())
    owning = asyncio.create_task(partitions.run(stop))
    async with stage.observed_pool([] if statements is None else statements) as pool:
        await eventually(lambda: len(partitions.owned) == PARTITIONS)
        yield Expander(
            pool,
            FramePublisher(broker or stage.broker),
            WakeupSender(stage.pool),
            partitions,
            batch_size=500,
            lease=timedelta(seconds=30),
            retry=RetryPolicy(max_attempts=2, pauses=(timedelta(0),)),
        )
        stop.request()
        await owning


async def tell(stage: Stage, *messages: OutgoingMessage, audience: Audience = Audience.RESTAURANT) -> None:
    """Up to L1 and no further."""
    telling = listener.EventListener(audience, stage.pool, FramePublisher(stage.broker), lambda: None)
    await telling.handle([delivered(each) for each in messages])


async def sends(stage: Stage, user_id: int) -> dict[str, asyncpg.Record]:
    rows = await stage.pool.fetch("SELECT * FROM notification_channel_send WHERE user_id = $1", user_id)
    return {row["channel_type"]: row for row in rows}


async def prefer(stage: Stage, user_id: int, **columns: Any) -> None:
    given = {"channels": {}, "event_types": {}, "quiet_from": None, "quiet_until": None} | columns
    await stage.pool.execute(
        "INSERT INTO notification_preference (user_type, user_id, channels, event_types, quiet_from, quiet_until)"
        " VALUES ('RESTAURANT_USER', $1, $2, $3, $4, $5)",
        user_id,
        *given.values(),
    )


def around(now: datetime) -> dict[str, time]:
    """Quiet hours that last now, in Rome, and for an hour and a bit more."""
    local = now.astimezone(ZoneInfo("Europe/Rome"))
    return {
        "quiet_from": (local - timedelta(hours=1)).time().replace(microsecond=0),
        "quiet_until": (local + timedelta(hours=1)).time().replace(microsecond=0),
    }


async def test_what_a_person_does_not_get_is_a_row_with_the_reason(stage: Stage) -> None:
    await prefer(stage, 50, channels={"SMS": False}, event_types={"RESERVATION_REQUESTED": {"EMAIL": False}})
    await stage.pool.execute("UPDATE restaurant_users SET email = NULL WHERE id = 51")
    await stage.pool.execute(
        "INSERT INTO undeliverable_address (user_type, user_id, channel_type, address, reason)"
        " VALUES ('RESTAURANT_USER', 51, 'PUSH', 'demo-fcm-token-51', 'UNREGISTERED'),"
        "        ('RESTAURANT_USER', 52, 'SMS', '+39000', 'an old number')"
    )
    await tell(stage, requested(1))
    async with expander(stage) as expanding:
        await expanding.run_once()
    assert await stage.count("notification_channel_send") == 9
    first, second, third = [await sends(stage, user_id) for user_id in (50, 51, 52)]
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


async def test_sms_and_push_wait_for_the_end_of_the_quiet_hours(stage: Stage) -> None:
    now = datetime.now(UTC)
    await prefer(stage, 50, **around(now))
    await tell(stage, requested(1))
    async with expander(stage) as expanding:
        await expanding.run_once()
    rows = await sends(stage, 50)
    assert rows["EMAIL"]["next_attempt_at"] < now + timedelta(minutes=5)
    for channel in ("SMS", "PUSH"):
        assert timedelta(minutes=50) < rows[channel]["next_attempt_at"] - now < timedelta(minutes=70)
        assert rows[channel]["is_sent"] is None


async def test_a_cancellation_at_the_last_minute_does_not_wait_for_them(stage: Stage) -> None:
    now = datetime.now(UTC)
    await prefer(stage, 50, **around(now))
    late = data(1, slot_time=now + timedelta(minutes=90))
    await tell(stage, message(EventType.RESERVATION_CANCELLED, late))
    async with expander(stage) as expanding:
        await expanding.run_once()
    assert (await sends(stage, 50))["SMS"]["next_attempt_at"] < now + timedelta(minutes=5)


async def test_what_would_be_useless_after_the_quiet_hours_is_skipped(stage: Stage) -> None:
    now = datetime.now(UTC)
    await stage.pool.execute(
        "INSERT INTO notification_preference (user_type, user_id, quiet_from, quiet_until)"
        " VALUES ('CUSTOMER', 5, $1, $2)",
        *around(now).values(),
    )
    soon = data(1, slot_time=now + timedelta(minutes=40), reminder="2h", status="ACCEPTED")
    await tell(stage, message(EventType.RESERVATION_REMINDER_DUE, soon), audience=Audience.CUSTOMER)
    async with expander(stage) as expanding:
        await expanding.run_once()
    rows = await sends(stage, 5)
    assert rows["EMAIL"]["is_sent"] is None
    assert rows["SMS"]["outcome"] == rows["PUSH"]["outcome"] == "SKIPPED"
    assert "quiet hours" in rows["SMS"]["last_error"]


async def act(stage: Stage, reservation_id: int, connection: Any = None) -> None:
    await (connection or stage.pool).execute(
        "INSERT INTO notification_action (reservation_id, reservation_version, actor_id, actor_type, action_type,"
        " first_to_act) VALUES ($1, 1, 51, 'RESTAURANT_USER', 'CONFIRMED', true)",
        reservation_id,
    )


async def test_what_was_decided_before_it_was_expanded_is_withdrawn_and_shown_as_decided(stage: Stage) -> None:
    reservation_id = await stage.reserve()
    await tell(stage, requested(reservation_id))
    await act(stage, reservation_id)
    async with stage.live_updates() as frames, expander(stage) as expanding:
        await expanding.run_once()
        await eventually(lambda: len(frames) == 3)
    outcomes = await stage.pool.fetch("SELECT is_sent, outcome, last_error FROM notification_channel_send")
    assert {tuple(row) for row in outcomes} == {(False, "WITHDRAWN", "handled by Marco Riva (CONFIRMED)")}
    assert len(outcomes) == 9
    for _, frame in frames_of(frames, "notification"):
        assert frame["resolution"]["actorName"] == "Marco Riva"
        assert frame["resolution"]["action"] == "CONFIRMED"
        assert frame["actions"] == []


async def test_a_decision_that_is_being_taken_is_waited_for(stage: Stage) -> None:
    reservation_id = await stage.reserve()
    await tell(stage, requested(reservation_id))
    async with expander(stage) as expanding:
        async with stage.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT FROM event_notification FOR UPDATE")
            expansion = asyncio.create_task(expanding.run_once())
            await eventually(lambda: stage.count("pg_stat_activity", "wait_event_type = 'Lock'"))
            await act(stage, reservation_id, connection)
        await expansion
    assert await stage.count("notification_channel_send", "outcome = 'WITHDRAWN'") == 9


async def test_a_question_about_an_earlier_version_is_withdrawn_even_if_nobody_answered_it(stage: Stage) -> None:
    reservation_id = await stage.reserve(version=2)
    await tell(stage, requested(reservation_id))
    async with expander(stage) as expanding:
        await expanding.run_once()
    assert await stage.count("notification_channel_send", "outcome = 'WITHDRAWN'") == 9


async def test_who_has_left_the_restaurant_or_the_agency_is_told_nothing_of_it(stage: Stage) -> None:
    reservation_id = await stage.reserve()
    for audience in (Audience.RESTAURANT, Audience.AGENCY):
        await tell(stage, requested(reservation_id), audience=audience)
    await stage.pool.execute("INSERT INTO agency (id, name) VALUES (8, 'Another')")
    await stage.pool.execute("UPDATE restaurant_users SET restaurant_id = 11 WHERE id = 50")
    await stage.pool.execute("UPDATE agency_users SET agency_id = 8 WHERE id = 70")
    async with stage.live_updates() as frames, expander(stage) as expanding:
        await expanding.run_once()
        await eventually(lambda: len(frames) == 2)
    assert [to for to, _ in frames_of(frames, "notification")] == [("RESTAURANT_USER:51",), ("RESTAURANT_USER:52",)]
    left = await stage.pool.fetch(
        "SELECT user_id, outcome, last_error FROM notification_channel_send WHERE is_sent IS NOT NULL"
    )
    assert {tuple(row) for row in left} == {
        (50, "WITHDRAWN", "the recipient has left the restaurant"),
        (70, "WITHDRAWN", "the recipient has left the agency"),
    }
    assert await stage.count("notification_channel_send", "is_sent IS NULL") == 6


async def test_while_rabbitmq_is_away_mail_goes_on_and_the_frames_come_later(stage: Stage) -> None:
    away = Broker(stage.amqp_url, "never connected")
    await tell(stage, requested(1))
    async with expander(stage, away) as expanding:
        await expanding.run_once()
    assert await stage.count("notification_channel_send", "is_sent IS NULL") == 9
    assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == 3
    assert await stage.count("live_frame") == 1
    async with stage.live_updates() as frames, stage.replica():
        await eventually(lambda: len(frames) == 3)
        await eventually(lambda: stage.is_empty("live_frame"))
    assert await stage.count("notification_channel_send") == 9


async def test_a_notification_that_fails_again_and_again_gets_older(stage: Stage) -> None:
    """It is due again later each time, so its due time tells nothing."""
    await stage.pool.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON notification_channel_send FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    await tell(stage, requested(1))
    await stage.pool.execute("UPDATE notification_outbox SET available_at = now() - interval '1 hour'")
    async with expander(stage) as expanding:
        await expanding.run_once()
    assert await stage.count("notification_outbox", "status = 'FAILED'") == 3
    await stage.pool.execute("UPDATE notification_outbox SET available_at = now() + interval '1 minute'")
    await Gauges(stage.pool).refresh()
    ((sample,),) = (metric.samples for metric in OVERDUE.collect())
    assert sample.value == pytest.approx(3600, abs=30)


async def test_a_crash_between_the_frames_and_the_commit_sends_the_frames_again_rather_than_never(stage: Stage) -> None:
    await stage.pool.execute(
        "CREATE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'crash at the commit'; END $$;"
        "CREATE CONSTRAINT TRIGGER crash AFTER INSERT ON notification_channel_send DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION crash()"
    )
    await tell(stage, requested(1))
    async with stage.live_updates() as frames, expander(stage) as expanding:
        with pytest.raises(asyncpg.RaiseError, match="crash at the commit"):
            await expanding.run_once()
        await eventually(lambda: len(frames) == 6)  # the batch, and once more row by row
        assert await stage.count("notification_channel_send") == 0
        assert await stage.count("notification_outbox", "status = 'PENDING'") == 3
        await stage.pool.execute("DROP TRIGGER crash ON notification_channel_send")
        await expanding.run_once()
        await eventually(lambda: len(frames) == 9)
    assert await stage.count("notification_channel_send") == 9
    assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == 3


async def test_expanding_twice_changes_nothing(stage: Stage) -> None:
    await tell(stage, requested(1))
    async with expander(stage) as expanding:
        await expanding.run_once()
        before = await stage.pool.fetch("SELECT * FROM notification_channel_send ORDER BY id")
        await stage.pool.execute("UPDATE notification_outbox SET status = 'PENDING'")
        await expanding.run_once()
    assert await stage.pool.fetch("SELECT * FROM notification_channel_send ORDER BY id") == before


async def test_a_row_that_cannot_be_expanded_fails_alone_and_is_buried_in_the_end(stage: Stage) -> None:
    await tell(stage, requested(1), requested(2), requested(3))
    await stage.pool.execute("UPDATE event_notification SET properties = '{}' WHERE reservation_id = 2")
    await stage.pool.execute("DELETE FROM notification WHERE user_id = 50 AND event_notification_id = 1")
    async with expander(stage) as expanding:
        await expanding.run_once()
        assert await stage.count("notification_outbox", "status = 'FAILED' AND retry_count = 1") == 3
        assert await stage.count("notification_outbox", "status = 'DEAD' AND last_error LIKE '%is gone'") == 1
        assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == 5
        await expanding.run_once()
    assert await stage.count("notification_outbox", "status = 'DEAD'") == 4
    assert await stage.count("notification_channel_send") == 15


async def refuse(stage: Stage, condition: str) -> None:
    """From now on the database refuses such a change of L1."""
    await stage.pool.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
    )
    await stage.pool.execute(
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
async def test_a_row_that_the_database_refuses_stops_nobody_else(
    stage: Stage, refused: str, status: str, error: str | None
) -> None:
    await tell(stage, requested(1), requested(2))
    await refuse(stage, refused)
    async with expander(stage) as expanding:
        await expanding.run_once()
        await expanding.run_once()
        row = await stage.pool.fetchrow("SELECT status, last_error FROM notification_outbox WHERE id = 2")
        assert row is not None
        assert tuple(row) == (status, error)
        assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == 5
        await tell(stage, requested(3))
        await expanding.run_once()
    assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == 8


async def test_a_missing_right_concerns_every_row_so_no_attempt_is_counted(stage: Stage) -> None:
    await tell(stage, requested(1), requested(2))
    await stage.pool.execute("REVOKE INSERT ON notification_channel_send FROM tablebell_notification_fanout")
    async with expander(stage) as expanding:
        for _ in range(3):
            with pytest.raises(OUTAGES):
                await expanding.run_once()
        assert await stage.count("notification_outbox", "status = 'PENDING' AND retry_count = 0") == 6
        await stage.pool.execute("GRANT INSERT ON notification_channel_send TO tablebell_notification_fanout")
        await expanding.run_once()
    assert await stage.count("notification_outbox", "status = 'PUBLISHED'") == 6


async def test_a_batch_takes_as_many_statements_for_many_rows_as_for_one(stage: Stage) -> None:
    statements: list[str] = []
    counts = []
    async with expander(stage, statements=statements) as expanding:
        for numbers in (range(1, 2), range(2, 3), range(3, 43)):
            await tell(stage, *(requested(number) for number in numbers))
            statements.clear()
            await expanding.run_once()
            counts.append(len(statements))
    _, one, many = counts  # the first asked for the types of its parameters too
    assert many == one == 9, statements
    assert await stage.count("notification_channel_send") == 42 * 9


async def test_l2_is_announced_when_there_is_something_to_send(stage: Stage, stop: Stop) -> None:
    wakeup_listener = WakeupListener(stage.database.url, "test")
    wakeup = wakeup_listener.subscribe(Level.CHANNEL_SEND)
    listening = asyncio.create_task(wakeup_listener.run(stop))
    await eventually(lambda: wakeup_listener.connected)
    assert await wakeup.wait(5, stop)  # the one that every new connection begins with
    await tell(stage, requested(1))
    async with expander(stage) as expanding:
        await expanding.run_once()
        assert await wakeup.wait(5, stop)
    stop.request()
    await listening
