"""A notification as its recipient sees it: the same model in the inbox and in live frames. Pure."""

from datetime import datetime
from typing import Any

from tablebell.events import CamelModel, EventType
from tablebell.people import Audience


class Outcome(CamelModel):
    """What an action made of the reservation: the event that it caused, and the values after it."""

    event_type: str
    slot_time: datetime
    proposed_time: datetime | None = None
    party_size: int
    reason: str | None = None
    """Why the restaurant cancelled."""


class Resolution(CamelModel):
    """Who answered a shared notification or a proposed time, how and when."""

    action: str
    actor_type: str
    actor_id: int
    actor_name: str
    at: datetime
    outcome: Outcome | None = None
    """None if the action did not change the reservation."""


class NotificationView(CamelModel):
    id: int
    event_notification_id: int
    event_type: str
    reservation_id: int
    title: str
    body: str
    properties: dict[str, Any]
    shared: bool
    """Several people have it, and the first to act decides for all."""
    actions: list[str]
    """The actions that are possible now; empty once it is resolved."""
    hidden: bool = False
    """Its owner has dismissed it. For the others it is as it was."""
    is_read: bool
    read_by_user_id: int | None = None
    resolution: Resolution | None = None
    created_at: datetime


# Events whose notification is shared by the staff: the first to act decides for all.
SHARED_EVENTS = frozenset(
    {EventType.RESERVATION_REQUESTED, EventType.RESERVATION_CHANGED, EventType.RESERVATION_DECISION_UNDONE}
)


def is_shared(event_type: str, audience: str) -> bool:
    return audience == Audience.RESTAURANT and event_type in SHARED_EVENTS


def is_proposal(event_type: str, audience: str) -> bool:
    """A proposed time, which the customer answers, or their agency for them."""
    return event_type == EventType.RESERVATION_POSTPONED and audience in (Audience.CUSTOMER, Audience.AGENCY)


def actions_of(event_type: str, audience: str, *, resolved: bool, hidden: bool = False) -> list[str]:
    """The actions that are possible now. Who has hidden a request can still answer it."""
    if resolved:
        return []
    if is_shared(event_type, audience):
        return ["CONFIRMED", "REJECTED", "POSTPONED", *([] if hidden else ["DISMISSED"])]
    if is_proposal(event_type, audience):
        return ["CONFIRMED", "REJECTED"]
    return []
