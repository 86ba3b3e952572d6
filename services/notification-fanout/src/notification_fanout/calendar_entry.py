"""Which e-mail changes the guest's calendar, and how. Pure.

An entry appears when the restaurant accepts. From then on, every message about another state updates or deletes it:
all messages about a reservation have the same UID, and its version is the sequence. A message may be withdrawn, because
the next one contains the whole state.
"""

from datetime import datetime, timedelta
from typing import Literal

from tablebell.events import EventType
from tablebell.messages import CalendarEntry
from tablebell.people import Audience

# The system does not know how long a table is kept.
VISIT = timedelta(hours=2)

Status = Literal["CONFIRMED", "TENTATIVE", "CANCELLED"]


def entry_status(event_type: EventType, audience: Audience, *, was_accepted: bool) -> Status | None:
    """The state of the entry after an event; None if the event leaves the calendar alone.

    `was_accepted`: an earlier version was accepted, so the guest may have an entry.
    """
    if audience is not Audience.CUSTOMER:
        return None
    match event_type:
        case EventType.RESERVATION_ACCEPTED:
            return "CONFIRMED"
        case EventType.RESERVATION_CHANGED | EventType.RESERVATION_POSTPONED if was_accepted:
            return "TENTATIVE"  # the restaurant or the guest has to agree to the new time
        case EventType.RESERVATION_REJECTED | EventType.RESERVATION_CANCELLED if was_accepted:
            return "CANCELLED"
        case _:
            return None


def calendar_entry(
    status: Status,
    *,
    reservation_id: int,
    version: int,
    occurred_at: datetime,
    start: datetime,
    summary: str,
    attendee: str,
    description: str | None,
) -> CalendarEntry:
    return CalendarEntry(
        method="CANCEL" if status == "CANCELLED" else "REQUEST",
        status=status,
        uid=f"reservation-{reservation_id}",
        sequence=version,
        stamp=occurred_at,
        start=start,
        end=start + VISIT,
        summary=summary,
        attendee=attendee,
        description=description,
    )
