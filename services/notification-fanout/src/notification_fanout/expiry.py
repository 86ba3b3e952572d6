"""When a notification expires, and which events override quiet hours. Pure.

| event | expires |
|---|---|
| requested, changed, accepted, rejected, cancelled | at the slot, but at least an hour after the event |
| postponed | at the slot or the proposed time, whichever is later, but at least an hour after the event |
| reminder 24h | two hours before the slot, when the next reminder is due |
| reminder 2h | at the slot |
| visit ended | three days after the slot |

The hour leaves a slow provider time to deliver last-minute events. Scheduled events (reminders, visit ended) have no
such minimum: they were written long before, and a late reminder is worse than none.
"""

from datetime import datetime, timedelta

from tablebell.events import EventType, ReservationData

MIN_LIFETIME = timedelta(hours=1)
SECOND_REMINDER_BEFORE_SLOT = timedelta(hours=2)
VISIT_ENDED_LIFETIME = timedelta(days=3)
URGENT_BEFORE_SLOT = timedelta(hours=2)


def not_after(event_type: EventType, data: ReservationData, occurred_at: datetime) -> datetime:
    match event_type:
        case EventType.RESERVATION_REMINDER_DUE:
            return data.slot_time - SECOND_REMINDER_BEFORE_SLOT if data.reminder == "24h" else data.slot_time
        case EventType.RESERVATION_VISIT_ENDED:
            return data.slot_time + VISIT_ENDED_LIFETIME
        case EventType.RESERVATION_POSTPONED:
            return max(data.slot_time, data.proposed_time or data.slot_time, occurred_at + MIN_LIFETIME)
        case _:
            return max(data.slot_time, occurred_at + MIN_LIFETIME)


def is_urgent(event_type: EventType, data: ReservationData, occurred_at: datetime) -> bool:
    """Whether SMS and push ignore quiet hours: a cancellation shortly before the slot."""
    return event_type == EventType.RESERVATION_CANCELLED and data.slot_time - occurred_at <= URGENT_BEFORE_SLOT
