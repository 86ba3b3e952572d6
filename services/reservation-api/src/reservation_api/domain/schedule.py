"""When the clock speaks about a reservation: two reminders before it, thanks on the morning after. Pure."""

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
    """What is still to come, in order of time.

    24 hours are hours, not a day: across a change of the clocks the reminder comes an hour earlier or later by the
    wall clock. The morning after is the restaurant's morning, whatever the hours in between.
    """
    morning_after = slot_time.astimezone(timezone).date() + timedelta(days=1)
    thanks = datetime.combine(morning_after, THANKS_AT, timezone).astimezone(UTC)
    planned = [
        Planned("reminder-24h", EventType.RESERVATION_REMINDER_DUE, slot_time - timedelta(hours=24), "24h"),
        Planned("reminder-2h", EventType.RESERVATION_REMINDER_DUE, slot_time - timedelta(hours=2), "2h"),
        Planned("visit-ended", EventType.RESERVATION_VISIT_ENDED, thanks),
    ]
    return [one for one in planned if one.at > now]
