"""The audit on a healthy database, and on damaged ones: each damage violates the check that is meant for it."""

import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from tablebell.testing import Database
from tablebell_tools.audit.check import CHECKS, OVERDUE, SQL, Finding, audit
from tablebell_tools.audit.expected import EXPECTED
from tablebell_tools.audit.window import POSITIONS, Connection, open_window

COMPLETE_RESERVATION = Path(__file__).with_name("complete_reservation.sql").read_text()
DAY = timedelta(hours=24)
AT_ONCE = timedelta(0)

DAMAGES = [
    ("reservation_events", "DELETE FROM event_outbox WHERE aggregate_version = 1"),
    ("reservation_events", "UPDATE reservation SET status = 'REJECTED'"),
    ("event_reservations", "UPDATE reservation SET version = 1"),
    ("reservation_actions", "DELETE FROM notification_action"),
    (
        "first_to_act",
        """INSERT INTO notification_action (reservation_id, reservation_version, actor_id, actor_type, action_type,
                                            first_to_act)
           SELECT reservation_id, 1, 51, 'RESTAURANT_USER', 'REJECTED', true FROM notification_action""",
    ),
    ("event_listeners", "DELETE FROM processed_event WHERE listener = 'ADMIN_LISTENER'"),
    ("event_people", "DELETE FROM notification WHERE user_id = 51"),
    ("event_people", "DELETE FROM event_notification WHERE audience = 'AGENCY' AND aggregate_version = 2"),
    (
        "notification_order",
        "UPDATE event_notification SET aggregate_version = 3 - aggregate_version WHERE audience = 'CUSTOMER'",
    ),
    ("notification_outboxes", "DELETE FROM notification_outbox WHERE notification_type = 'CUSTOMER'"),
    ("notification_channels", "DELETE FROM notification_channel_send WHERE channel_type = 'SLACK'"),
    ("channel_outcomes", "UPDATE channel_send_attempt SET outcome = 'RETRY'"),
    ("channel_outcomes", "UPDATE notification_channel_send SET is_sent = false, outcome = 'EXPIRED'"),
    ("shared_addresses", "UPDATE notification_channel_send SET shared_event_id = NULL WHERE outcome = 'SENT'"),
    (
        "shared_addresses",
        """UPDATE notification_channel_send SET outcome = 'SENT', is_sent = true
            WHERE channel_type = 'SLACK' AND outcome = 'SKIPPED'""",
    ),
    (
        "channel_order",
        "UPDATE notification_channel_send SET sent_at = now() - interval '1 minute' WHERE aggregate_version = 2",
    ),
    (
        "calls_after_success",
        """INSERT INTO channel_send_attempt (channel_send_id, channel_type, attempt)
           SELECT id, channel_type, 2 FROM notification_channel_send LIMIT 1""",
    ),
    ("due_events", "UPDATE event_outbox SET available_at = now() - interval '1 minute'"),
    (
        "due_events",
        """UPDATE event_outbox
              SET status = 'PROCESSING', available_at = now(), lease_token = gen_random_uuid(), lease_until = now()
            WHERE status = 'PENDING'""",
    ),
    ("due_notifications", "UPDATE notification_outbox SET status = 'FAILED', available_at = now()"),
    ("due_sends", "UPDATE notification_channel_send SET is_sent = NULL, next_attempt_at = now()"),
    (
        "put_off",
        """UPDATE event_outbox
              SET status = 'FAILED', available_at = now() + interval '1 minute',
                  first_due_at = now() - interval '1 hour'
            WHERE status = 'PENDING'""",
    ),
    (
        "put_off",
        """UPDATE notification_outbox
              SET status = 'FAILED', available_at = now() + interval '2 seconds',
                  first_due_at = now() - interval '1 hour'""",
    ),
    (
        "put_off",
        """UPDATE notification_channel_send
              SET is_sent = NULL, outcome = NULL, next_attempt_at = now() + interval '30 seconds',
                  first_due_at = now() - interval '1 hour'""",
    ),
    ("dead_rows", "UPDATE notification_outbox SET status = 'DEAD'"),
]


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database.url.get_secret_value())
    await connection.execute(COMPLETE_RESERVATION)
    yield connection
    await connection.close()


def violated(findings: list[Finding]) -> set[str]:
    return {finding.check.name for finding in findings if finding.is_violation}


async def test_a_healthy_database_violates_no_check(connection: Connection) -> None:
    findings = await audit(connection, DAY, AT_ONCE)
    assert violated(findings) == set()
    checked = {finding.check.name: finding.checked for finding in findings}
    assert checked["reservation_events"] == 1
    assert checked["event_listeners"] == 3
    assert checked["event_people"] == checked["notification_outboxes"] == 9
    assert checked["notification_channels"] == checked["channel_outcomes"] == 21
    assert checked["shared_addresses"] == 2


@pytest.mark.parametrize(("check", "damage"), DAMAGES)
async def test_damage_is_reported_with_an_example(connection: Connection, check: str, damage: str) -> None:
    await connection.execute(damage)
    findings = {finding.check.name: finding for finding in await audit(connection, DAY, AT_ONCE)}
    assert findings[check].is_violation
    assert findings[check].examples


async def test_staff_are_expected_to_be_notified_of_an_acceptance_by_the_guest(connection: Connection) -> None:
    await connection.execute(
        """UPDATE event_outbox
              SET payload = jsonb_set(payload, '{actor}', '{"userType": "CUSTOMER", "userId": 5, "name": "Anna"}')
            WHERE event_type = 'RESERVATION_ACCEPTED'"""
    )
    findings = {finding.check.name: finding for finding in await audit(connection, DAY, AT_ONCE)}
    assert (findings["event_people"].checked, findings["event_people"].wrong) == (12, 3)
    assert "RESTAURANT_USER:50" in findings["event_people"].examples[0]


async def test_a_row_that_a_worker_holds_is_not_stuck(connection: Connection) -> None:
    await connection.execute(
        """UPDATE event_outbox
              SET status = 'PROCESSING', available_at = now(), lease_token = gen_random_uuid(),
                  lease_until = now() + interval '30 seconds'
            WHERE status = 'PENDING'"""
    )
    assert violated(await audit(connection, DAY, AT_ONCE)) == set()


async def test_a_row_before_its_scheduled_time_is_not_overdue(connection: Connection) -> None:
    """A reminder scheduled long ago, and a retried message that had waited for the end of the quiet hours."""
    await connection.execute(
        "UPDATE event_outbox SET created_at = now() - interval '20 hours' WHERE status = 'PENDING'"
    )
    await connection.execute(
        """UPDATE notification_channel_send
              SET is_sent = NULL, outcome = NULL, created_at = now() - interval '8 hours',
                  first_due_at = now() - interval '5 minutes', next_attempt_at = now() + interval '1 minute'
            WHERE channel_type = 'SMS'"""
    )
    assert violated(await audit(connection, DAY, AT_ONCE)) == set()


async def test_rows_newer_than_the_window_are_not_checked(connection: Connection) -> None:
    await connection.execute("DELETE FROM processed_event")
    assert violated(await audit(connection, DAY, timedelta(seconds=60))) == set()


async def test_sends_that_were_given_up_are_listed_and_are_no_violation(connection: Connection) -> None:
    await connection.execute(
        """UPDATE notification_channel_send
              SET is_sent = false, outcome = 'UNDELIVERABLE', last_error = 'no such number'
            WHERE channel_type = 'SMS'"""
    )
    findings = {finding.check.name: finding for finding in await audit(connection, DAY, AT_ONCE)}
    assert violated(list(findings.values())) == set()
    assert findings["dead_sends"].wrong == 5
    assert findings["unsent"].examples == ["5 UNDELIVERABLE", "1 SKIPPED"]


async def test_the_window_starts_after_the_history(connection: Connection) -> None:
    await connection.execute("UPDATE reservation SET created_at = created_at - interval '2 days'")
    await connection.execute("UPDATE event_outbox SET created_at = created_at - interval '2 days'")
    await connection.execute(COMPLETE_RESERVATION.replace("30 days", "31 days"))
    old = await connection.fetchval("SELECT min(id) FROM reservation")
    last_old = await connection.fetchval("SELECT max(id) FROM event_outbox WHERE aggregate_id = $1", old)
    window = await open_window(connection, DAY, AT_ONCE, OVERDUE)
    assert window.first_ids["reservation"] == old + 1
    assert window.first_ids["event_outbox"] == last_old + 1
    findings = {finding.check.name: finding for finding in await audit(connection, DAY, AT_ONCE)}
    assert findings["reservation_events"].checked == 1
    assert not findings["reservation_events"].is_violation


async def test_purged_history_is_not_lost(connection: Connection) -> None:
    await connection.execute("UPDATE event_outbox SET status = 'PUBLISHED', published_at = now()")
    await connection.execute("DELETE FROM event_outbox WHERE aggregate_version = 1")
    assert "reservation_events" in violated(await audit(connection, DAY, AT_ONCE))
    await connection.execute("INSERT INTO purge_horizon VALUES ('event_outbox', clock_timestamp())")
    findings = await audit(connection, DAY, AT_ONCE)
    assert violated(findings) == set()
    checked = {finding.check.name: finding.checked for finding in findings}
    assert checked["reservation_events"] == 0


def test_every_check_has_a_query_and_every_parameter_is_used() -> None:
    assert [check.name for check in CHECKS] == list(SQL)
    assert {name for check in CHECKS for name in check.parameters} == {
        *("since", "until", "overdue"),
        *POSITIONS,
        *EXPECTED,
    }


async def test_the_exit_code_says_whether_anything_was_lost(connection: Connection, database: Database) -> None:
    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tablebell_tools", "audit", "--settle", "0"]
        url = database.url.get_secret_value()
        return subprocess.run([*command, "--url", url], capture_output=True, text=True, check=False)

    healthy = run()
    assert (healthy.returncode, healthy.stderr) == (0, "")
    assert "Nothing was lost" in healthy.stdout
    await connection.execute("DELETE FROM notification_outbox")
    damaged = run()
    assert damaged.returncode == 1
    assert "violated: notification → L1" in damaged.stdout
