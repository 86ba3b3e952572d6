"""Reminders and thanks in the restaurant's timezone, across clock changes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from reservation_api.domain.schedule import plan

ROME = ZoneInfo("Europe/Rome")
LONG_BEFORE = datetime(2026, 1, 1, tzinfo=UTC)


def planned(slot: datetime, zone: ZoneInfo = ROME, now: datetime = LONG_BEFORE) -> dict[str, datetime]:
    return {one.schedule_key: one.at for one in plan(slot, zone, now)}


def test_reminders_are_24_and_2_hours_before_and_thanks_the_morning_after() -> None:
    slot = datetime(2027, 11, 14, 20, 0, tzinfo=ROME)
    assert planned(slot) == {
        "reminder-24h": datetime(2027, 11, 13, 20, 0, tzinfo=ROME),
        "reminder-2h": datetime(2027, 11, 14, 18, 0, tzinfo=ROME),
        "visit-ended": datetime(2027, 11, 15, 10, 0, tzinfo=ROME),
    }


def test_thanks_are_at_ten_local_time_across_a_clock_change() -> None:
    forward = datetime(2027, 3, 27, 20, 0, tzinfo=ROME)
    back = datetime(2027, 10, 30, 20, 0, tzinfo=ROME)
    assert planned(forward)["visit-ended"] == datetime(2027, 3, 28, 8, 0, tzinfo=UTC)
    assert planned(back)["visit-ended"] == datetime(2027, 10, 31, 9, 0, tzinfo=UTC)


def test_the_24h_reminder_is_exactly_24_hours_before_across_a_clock_change() -> None:
    slot = datetime(2027, 3, 28, 20, 0, tzinfo=ROME).astimezone(UTC)
    assert planned(slot)["reminder-24h"].astimezone(ROME) == datetime(2027, 3, 27, 19, 0, tzinfo=ROME)


def test_the_morning_after_is_in_the_restaurants_timezone() -> None:
    tokyo = ZoneInfo("Asia/Tokyo")
    slot = datetime(2027, 6, 2, 0, 30, tzinfo=tokyo)
    assert slot.astimezone(UTC).day == 1
    assert planned(slot, tokyo)["visit-ended"] == datetime(2027, 6, 3, 10, 0, tzinfo=tokyo)


def test_events_in_the_past_are_not_planned() -> None:
    slot = datetime(2027, 6, 1, 20, 0, tzinfo=ROME)
    assert set(planned(slot, now=slot - timedelta(hours=24))) == {"reminder-2h", "visit-ended"}
    assert set(planned(slot, now=slot - timedelta(hours=1))) == {"visit-ended"}
    assert planned(slot, now=slot + timedelta(days=2)) == {}
