"""When notifications expire, and which are urgent."""

from datetime import UTC, datetime, timedelta

import pytest

from notification_fanout.expiry import is_urgent, not_after
from tablebell.events import EventType

from .samples import sample

SLOT = datetime(2026, 11, 20, 19, 30, tzinfo=UTC)
DATA = sample("Anna", "Porto", None).model_copy(update={"slot_time": SLOT, "proposed_time": SLOT + timedelta(hours=2)})
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("event_type", "expected"),
    [
        (EventType.RESERVATION_REQUESTED, SLOT),
        (EventType.RESERVATION_CANCELLED, SLOT),
        (EventType.RESERVATION_POSTPONED, SLOT + 2 * HOUR),
        (EventType.RESERVATION_REMINDER_DUE, SLOT - 2 * HOUR),
        (EventType.RESERVATION_VISIT_ENDED, SLOT + timedelta(days=3)),
    ],
)
def test_each_event_type_has_its_own_expiry(event_type: EventType, expected: datetime) -> None:
    assert not_after(event_type, DATA, SLOT - timedelta(days=5)) == expected


def test_the_second_reminder_expires_at_the_slot() -> None:
    data = DATA.model_copy(update={"reminder": "2h"})
    assert not_after(EventType.RESERVATION_REMINDER_DUE, data, SLOT - timedelta(days=30)) == SLOT


def test_a_last_minute_event_expires_an_hour_after_it_occurred() -> None:
    occurred_at = SLOT - timedelta(minutes=5)
    assert not_after(EventType.RESERVATION_CANCELLED, DATA, occurred_at) == occurred_at + HOUR


def test_only_a_cancellation_close_to_the_slot_is_urgent() -> None:
    assert is_urgent(EventType.RESERVATION_CANCELLED, DATA, SLOT - 2 * HOUR)
    assert not is_urgent(EventType.RESERVATION_CANCELLED, DATA, SLOT - 2 * HOUR - timedelta(seconds=1))
    assert not is_urgent(EventType.RESERVATION_CHANGED, DATA, SLOT - HOUR)
