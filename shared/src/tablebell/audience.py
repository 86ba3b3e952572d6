"""Which audience is notified of which event, by which channels, and which fields it may see. Pure.

notification-fanout follows these rules, and `make audit` checks a live system against them.
"""

from collections.abc import Mapping
from typing import Any

from tablebell.events import Actor, EventType
from tablebell.people import Audience, Channel, UserType

RESTAURANT, CUSTOMER, ADMIN, AGENCY = Audience.RESTAURANT, Audience.CUSTOMER, Audience.ADMIN, Audience.AGENCY

AUDIENCES: Mapping[EventType, tuple[Audience, ...]] = {
    EventType.RESERVATION_REQUESTED: (RESTAURANT, CUSTOMER, ADMIN, AGENCY),
    EventType.RESERVATION_ACCEPTED: (RESTAURANT, CUSTOMER, AGENCY),
    EventType.RESERVATION_REJECTED: (CUSTOMER, ADMIN, AGENCY),
    EventType.RESERVATION_POSTPONED: (CUSTOMER, AGENCY),
    EventType.RESERVATION_CHANGED: (RESTAURANT, CUSTOMER, AGENCY),
    EventType.RESERVATION_CANCELLED: (RESTAURANT, CUSTOMER, ADMIN, AGENCY),
    EventType.RESERVATION_REMINDER_DUE: (CUSTOMER,),
    EventType.RESERVATION_VISIT_ENDED: (CUSTOMER,),
    EventType.RESERVATION_ARRIVED: (),
    EventType.RESERVATION_NO_SHOW: (),
    EventType.RESERVATION_REOPENED: (),
    EventType.RESERVATION_DECIDED: (),
    EventType.RESERVATION_DECISION_UNDONE: (RESTAURANT,),
    EventType.NOTIFICATION_RESOLVED: (),
    EventType.NOTIFICATION_DISMISSED: (),
    EventType.NOTIFICATION_READ: (),
}

# An audience that is notified only if one of these people caused the event. Staff know their own decision; they are
# notified when the guest accepted the time that they proposed.
ONLY_IF_BY: Mapping[tuple[EventType, Audience], frozenset[UserType]] = {
    (EventType.RESERVATION_ACCEPTED, RESTAURANT): frozenset({UserType.CUSTOMER, UserType.AGENCY_USER}),
}

# Events that create a new version of the reservation and so resolve decision requests of earlier versions.
RESOLVING = frozenset(
    {
        EventType.RESERVATION_ACCEPTED,
        EventType.RESERVATION_REJECTED,
        EventType.RESERVATION_POSTPONED,
        EventType.RESERVATION_CHANGED,
        EventType.RESERVATION_CANCELLED,
        EventType.RESERVATION_DECIDED,
    }
)

# Written long before they are due: their version does not give their position in the reservation's history.
SCHEDULED = frozenset({EventType.RESERVATION_REMINDER_DUE, EventType.RESERVATION_VISIT_ENDED})

_LIMITED_CHANNELS: Mapping[EventType, frozenset[Channel]] = {
    EventType.RESERVATION_VISIT_ENDED: frozenset({Channel.EMAIL, Channel.WEBSOCKET}),
    # The staff had the mail and the SMS of the request.
    EventType.RESERVATION_DECISION_UNDONE: frozenset({Channel.PUSH, Channel.WEBSOCKET}),
}
_EVERY_CHANNEL = frozenset(Channel)


# The fields of an event's data that every audience may see. A field that is not listed is never shown.
_VISIBLE_TO_ALL = (
    *("reservationId", "customerId", "customerName", "restaurantId", "restaurantName", "agencyId", "partySize"),
    *("slotTime", "timezone", "status", "proposedTime", "previousSlotTime", "previousPartySize", "action", "reminder"),
    "reason",
)
# The note may contain health data, which only the guest and the restaurant need. The actor may be a member of staff,
# whose name is internal to the restaurant.
_VISIBLE: Mapping[Audience, tuple[str, ...]] = {
    RESTAURANT: (*_VISIBLE_TO_ALL, "note", "actor"),
    CUSTOMER: (*_VISIBLE_TO_ALL, "note"),
    ADMIN: (*_VISIBLE_TO_ALL, "actor"),
    AGENCY: _VISIBLE_TO_ALL,
}


def properties_for(audience: Audience, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event's data that this audience may see, in the inbox, in live frames and in storage."""
    return {field: data[field] for field in _VISIBLE[audience] if field in data}


def sees_note(audience: Audience) -> bool:
    return "note" in _VISIBLE[audience]


def is_notified(event_type: EventType, audience: Audience, actor: Actor | None) -> bool:
    if audience not in AUDIENCES[event_type]:
        return False
    only_by = ONLY_IF_BY.get((event_type, audience))
    return only_by is None or (actor is not None and actor.user_type in only_by)


def supersedes_earlier(event_type: EventType, audience: Audience, actor: Actor | None) -> bool:
    """Whether this event replaces the audience's notifications of earlier versions.

    A scheduled event does not: the acceptance of the same version did already.
    """
    return is_notified(event_type, audience, actor) and event_type not in SCHEDULED


def channels_for(event_type: EventType) -> frozenset[Channel]:
    """The channels that an event may use at all."""
    return _LIMITED_CHANNELS.get(event_type, _EVERY_CHANNEL)
