"""Until when it is of use to be told, and what may disturb a quiet night. Pure.

| event | useful until |
|---|---|
| requested, changed, accepted | the slot: afterwards the table is taken or it is not |
| rejected, cancelled | the slot, and for an hour at least: whoever is on the way must hear of it |
| postponed | the later of the slot and the proposed time: until then it can be answered |
| reminder 24h | two hours before the slot, when the next reminder comes |
| reminder 2h | the slot |
| visit ended | three days after the slot: thanks do not get better with age |

What is told about now has an hour at least: a slow provider must not swallow what was asked for at the last minute.
Reminders have not: a reminder that comes too late is worse than none. What the clock does (reminders, thanks) counts
from the slot: it was planned long before it is told.
"""

from datetime import datetime, timedelta

from tablebell.events import EventType, ReservationData

AT_LEAST = timedelta(hours=1)
BETWEEN_REMINDERS = timedelta(hours=2)
THANKS = timedelta(days=3)
URGENT = timedelta(hours=2)


def not_after(event_type: EventType, data: ReservationData, occurred_at: datetime) -> datetime:
    match event_type:
        case EventType.RESERVATION_REMINDER_DUE:
            return data.slot_time - BETWEEN_REMINDERS if data.reminder == "24h" else data.slot_time
        case EventType.RESERVATION_VISIT_ENDED:
            return data.slot_time + THANKS
        case EventType.RESERVATION_POSTPONED:
            return max(data.slot_time, data.proposed_time or data.slot_time, occurred_at + AT_LEAST)
        case _:
            return max(data.slot_time, occurred_at + AT_LEAST)


def is_urgent(event_type: EventType, data: ReservationData, occurred_at: datetime) -> bool:
    """A table that becomes free, or is gone, while people are getting ready: that may ring at night."""
    return event_type == EventType.RESERVATION_CANCELLED and data.slot_time - occurred_at <= URGENT
