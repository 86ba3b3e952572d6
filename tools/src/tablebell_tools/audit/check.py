"""The checks of the audit and their findings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tablebell.sqlfile import load_queries
from tablebell_tools.audit.expected import EXPECTED
from tablebell_tools.audit.window import Connection, Window, open_window

SQL = load_queries("tablebell_tools.audit", "sql", "checks.sql")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    """The name of its block in checks.sql."""
    title: str
    parameters: tuple[str, ...]
    is_note: bool = False
    """Reported, but no violation."""


@dataclass(frozen=True, slots=True)
class Finding:
    check: Check
    checked: int
    wrong: int
    examples: Sequence[str]

    @property
    def is_violation(self) -> bool:
        return self.wrong > 0 and not self.check.is_note


CHECKS = (
    Check("reservation_events", "reservation → its events", ("since", "until", "reservation", "event_outbox")),
    Check("event_reservations", "event → its reservation", ("since", "until", "event_outbox")),
    Check("reservation_actions", "decision → its action", ("since", "until", "reservation", "notification_action")),
    Check("first_to_act", "one first to act", ("since", "until", "notification_action")),
    Check("event_listeners", "L0 → every listener", ("since", "until", "event_outbox", "listeners")),
    Check(
        "event_people",
        "L0 → everyone concerned",
        ("since", "until", "event_outbox", "notified_events", "notified_audiences", "notified_only_by"),
    ),
    Check("notification_order", "notified in order", ("since", "until", "event_notification", "scheduled_events")),
    Check("notification_outboxes", "notification → L1", ("since", "until", "notification", "notification_outbox")),
    Check(
        "notification_channels",
        "L1 → L2, every channel",
        (
            *("since", "until", "notification_outbox", "notification_channel_send"),
            *("channel_events", "channel_audiences", "channel_user_types", "channels"),
        ),
    ),
    Check(
        "channel_outcomes",
        "L2 → delivery or reason",
        ("since", "until", "notification_channel_send", "channel_send_attempt"),
    ),
    Check(
        "shared_addresses",
        "once per shared address",
        ("since", "until", "notification_channel_send", "shared_channels"),
    ),
    Check("channel_order", "sent in order", ("since", "until", "notification_channel_send")),
    Check("calls_after_success", "no call after a success", ("since", "until", "channel_send_attempt")),
    Check("due_events", "nothing stuck in L0", ("until",)),
    Check("due_notifications", "nothing stuck in L1", ("until",)),
    Check("due_sends", "nothing stuck in L2", ("until",)),
    Check("put_off", "nothing postponed too long", ("overdue",)),
    Check("dead_rows", "nothing dead in L0 and L1", ()),
    Check("dead_sends", "dead in L2", (), is_note=True),
    Check("unsent", "not sent, with a reason", ("since", "until", "notification_channel_send"), is_note=True),
    Check("broken_calls", "calls interrupted by a crash", ("since", "until", "channel_send_attempt"), is_note=True),
)

OVERDUE = timedelta(minutes=30)
"""All retries of a row take less time: a row that is open for longer is postponed again and again."""


async def audit(
    connection: Connection, reach: timedelta, settle: timedelta, overdue: timedelta = OVERDUE
) -> list[Finding]:
    """All checks use one snapshot, so rows that change between two checks are no violation."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        window = await open_window(connection, reach, settle, overdue)
        return [await _run(connection, check, window) for check in CHECKS]


async def _run(connection: Connection, check: Check, window: Window) -> Finding:
    known = {**window.parameters(), **EXPECTED}
    row = await connection.fetchrow(SQL[check.name], *(known[name] for name in check.parameters))
    if row is None:
        raise ValueError(f"{check.name} must return one row")
    return Finding(check, row["checked"], row["wrong"], row["examples"] or ())
