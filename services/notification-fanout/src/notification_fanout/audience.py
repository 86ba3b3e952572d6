"""Who is told of what: the matrix of the contract, and what of an event each audience may see. Pure."""

from collections.abc import Mapping
from typing import Any

from tablebell.events import EventType
from tablebell.people import Audience, Channel

RESTAURANT, CUSTOMER, ADMIN, AGENCY = Audience.RESTAURANT, Audience.CUSTOMER, Audience.ADMIN, Audience.AGENCY

AUDIENCES: Mapping[EventType, tuple[Audience, ...]] = {
    EventType.RESERVATION_REQUESTED: (RESTAURANT, CUSTOMER, ADMIN, AGENCY),
    EventType.RESERVATION_ACCEPTED: (CUSTOMER, AGENCY),
    EventType.RESERVATION_REJECTED: (CUSTOMER, ADMIN, AGENCY),
    EventType.RESERVATION_POSTPONED: (CUSTOMER, AGENCY),
    EventType.RESERVATION_CHANGED: (RESTAURANT, CUSTOMER, AGENCY),
    EventType.RESERVATION_CANCELLED: (RESTAURANT, CUSTOMER, ADMIN, AGENCY),
    EventType.RESERVATION_REMINDER_DUE: (CUSTOMER,),
    EventType.RESERVATION_VISIT_ENDED: (CUSTOMER,),
    EventType.NOTIFICATION_RESOLVED: (),
    EventType.NOTIFICATION_READ: (),
}

# A reservation has moved on: a question that staff were asked about an earlier version is settled.
MOVING = frozenset(
    {
        EventType.RESERVATION_ACCEPTED,
        EventType.RESERVATION_REJECTED,
        EventType.RESERVATION_POSTPONED,
        EventType.RESERVATION_CHANGED,
        EventType.RESERVATION_CANCELLED,
    }
)
QUESTIONS = (EventType.RESERVATION_REQUESTED, EventType.RESERVATION_CHANGED)

# Planned long before they are told: their version says nothing about their place in the story.
PLANNED = frozenset({EventType.RESERVATION_REMINDER_DUE, EventType.RESERVATION_VISIT_ENDED})

_ONLY: Mapping[EventType, frozenset[Channel]] = {
    EventType.RESERVATION_VISIT_ENDED: frozenset({Channel.EMAIL, Channel.WEBSOCKET}),
}
_EVERY_CHANNEL = frozenset(Channel)


# The fields of an event's data that everybody who is told may see. A field that is not named is shown to nobody.
_SEEN_BY_ALL = (
    *("reservationId", "customerId", "customerName", "restaurantId", "restaurantName", "agencyId", "partySize"),
    *("slotTime", "timezone", "status", "proposedTime", "previousSlotTime", "previousPartySize", "action", "reminder"),
)
# The note may hold what only the guest and the restaurant need to know, such as an illness. The actor may be a member
# of staff, whose name is the restaurant's affair.
_SEEN: Mapping[Audience, tuple[str, ...]] = {
    RESTAURANT: (*_SEEN_BY_ALL, "note", "actor"),
    CUSTOMER: (*_SEEN_BY_ALL, "note"),
    ADMIN: (*_SEEN_BY_ALL, "actor"),
    AGENCY: _SEEN_BY_ALL,
}


def properties_for(audience: Audience, data: Mapping[str, Any]) -> dict[str, Any]:
    """What of an event's data this audience may see: in the inbox, in live frames and in what is stored for it."""
    return {field: data[field] for field in _SEEN[audience] if field in data}


def reads_note(audience: Audience) -> bool:
    return "note" in _SEEN[audience]


def is_told(event_type: EventType, audience: Audience) -> bool:
    return audience in AUDIENCES[event_type]


def is_news(event_type: EventType, audience: Audience) -> bool:
    """Whether this audience is told of a new version of the reservation by it."""
    return is_told(event_type, audience) and event_type not in PLANNED


def channels_for(event_type: EventType) -> frozenset[Channel]:
    """By which channels an event may be told at all."""
    return _ONLY.get(event_type, _EVERY_CHANNEL)
