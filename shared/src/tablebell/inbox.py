"""A notification as its recipient sees it: the same model in the inbox and in live frames. Pure."""

from datetime import datetime
from typing import Any

from tablebell.events import CamelModel, EventType
from tablebell.people import Audience


class Resolution(CamelModel):
    """Who handled a shared notification, how and when."""

    action: str
    actor_id: int
    actor_name: str
    at: datetime


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
    is_read: bool
    read_by_user_id: int | None = None
    resolution: Resolution | None = None
    created_at: datetime


# Events whose notification is shared by the staff: the first to act decides for all.
SHARED_EVENTS = frozenset({EventType.RESERVATION_REQUESTED, EventType.RESERVATION_CHANGED})


def is_shared(event_type: str, audience: str) -> bool:
    return audience == Audience.RESTAURANT and event_type in SHARED_EVENTS


def is_proposal(event_type: str, audience: str) -> bool:
    """A proposed time, which the customer answers, or their agency for them."""
    return event_type == EventType.RESERVATION_POSTPONED and audience in (Audience.CUSTOMER, Audience.AGENCY)


def actions_of(event_type: str, audience: str, *, resolved: bool) -> list[str]:
    """The actions that are possible now."""
    if resolved:
        return []
    if is_shared(event_type, audience):
        return ["CONFIRMED", "REJECTED", "POSTPONED", "DISMISSED"]
    if is_proposal(event_type, audience):
        return ["CONFIRMED", "REJECTED"]
    return []
