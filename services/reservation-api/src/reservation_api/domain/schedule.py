"""The scheduled events of a reservation: two reminders before it, and thanks the morning after. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tablebell.events import EventType

THANKS_AT = time(10, 0)


@dataclass(frozen=True, slots=True)
class Planned:
    schedule_key: str
    event_type: EventType
    at: datetime
    reminder: str | None = None


def plan(slot_time: datetime, timezone: ZoneInfo, now: datetime) -> list[Planned]:
    """The events that are still in the future, in order of time.

    Reminders are due exactly 24 and 2 hours before, also across a change of daylight saving time. The thanks are due at
    10:00 in the restaurant's timezone.
    """
    morning_after = slot_time.astimezone(timezone).date() + timedelta(days=1)
    thanks = datetime.combine(morning_after, THANKS_AT, timezone).astimezone(UTC)
    planned = [
        Planned("reminder-24h", EventType.RESERVATION_REMINDER_DUE, slot_time - timedelta(hours=24), "24h"),
        Planned("reminder-2h", EventType.RESERVATION_REMINDER_DUE, slot_time - timedelta(hours=2), "2h"),
        Planned("visit-ended", EventType.RESERVATION_VISIT_ENDED, thanks),
    ]
    return [event for event in planned if event.at > now]
