"""The state machine of a reservation: which act is legal in which state, for whom, and its result. Pure.

Every legal act creates a new version; an illegal act changes nothing. Staff decide on NOT_ACCEPTED reservations.
Customers, or their agency for them, answer a proposed time (POSTPONED), and can change or cancel a reservation that is
not closed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tablebell.events import EventType
from tablebell.people import UserType


class Status(StrEnum):
    NOT_ACCEPTED = "NOT_ACCEPTED"
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    POSTPONED = "POSTPONED"
    CANCELLED = "CANCELLED"


class Action(StrEnum):
    """An action on a notification; the column `action_type` of notification_action."""

    CONFIRMED = "CONFIRMED"
    REJECTED = "REJECTED"
    POSTPONED = "POSTPONED"
    DISMISSED = "DISMISSED"
    CUSTOM = "CUSTOM"


class Act(StrEnum):
    ACCEPT = "accept"
    REJECT = "reject"
    POSTPONE = "postpone"
    CHANGE = "change"
    CANCEL = "cancel"
    CONFIRM_PROPOSAL = "confirm the proposed time"
    DECLINE_PROPOSAL = "decline the proposed time"


@dataclass(frozen=True, slots=True)
class Rule:
    by: frozenset[UserType]
    when: frozenset[Status]
    then: Status
    event_type: EventType
    action: Action


OPEN = frozenset({Status.NOT_ACCEPTED})
PROPOSED = frozenset({Status.POSTPONED})
ALIVE = frozenset({Status.NOT_ACCEPTED, Status.ACCEPTED, Status.POSTPONED})

STAFF = frozenset({UserType.RESTAURANT_USER})
GUEST = frozenset({UserType.CUSTOMER, UserType.AGENCY_USER})

RULES: Mapping[Act, Rule] = {
    Act.ACCEPT: Rule(STAFF, OPEN, Status.ACCEPTED, EventType.RESERVATION_ACCEPTED, Action.CONFIRMED),
    Act.REJECT: Rule(STAFF, OPEN, Status.REJECTED, EventType.RESERVATION_REJECTED, Action.REJECTED),
    Act.POSTPONE: Rule(STAFF, OPEN, Status.POSTPONED, EventType.RESERVATION_POSTPONED, Action.POSTPONED),
    # A changed reservation must be accepted again.
    Act.CHANGE: Rule(GUEST, ALIVE, Status.NOT_ACCEPTED, EventType.RESERVATION_CHANGED, Action.CUSTOM),
    Act.CANCEL: Rule(GUEST, ALIVE, Status.CANCELLED, EventType.RESERVATION_CANCELLED, Action.CUSTOM),
    Act.CONFIRM_PROPOSAL: Rule(GUEST, PROPOSED, Status.ACCEPTED, EventType.RESERVATION_ACCEPTED, Action.CONFIRMED),
    # CANCELLED, because REJECTED is the restaurant's decision, and staff are only notified of cancellations.
    Act.DECLINE_PROPOSAL: Rule(GUEST, PROPOSED, Status.CANCELLED, EventType.RESERVATION_CANCELLED, Action.REJECTED),
}

# The act that an action performs: of staff on a shared notification, of a customer or their agency on a proposed time.
STAFF_ACTS: Mapping[Action, Act] = {
    Action.CONFIRMED: Act.ACCEPT,
    Action.REJECTED: Act.REJECT,
    Action.POSTPONED: Act.POSTPONE,
}
GUEST_ACTS: Mapping[Action, Act] = {
    Action.CONFIRMED: Act.CONFIRM_PROPOSAL,
    Action.REJECTED: Act.DECLINE_PROPOSAL,
}


@dataclass(frozen=True, slots=True)
class Reservation:
    """The fields that the rules use."""

    status: Status
    version: int
    slot_time: datetime
    party_size: int
    note: str | None
    proposed_time: datetime | None


class Illegal(Exception):
    """The act is not legal in the reservation's state."""


class TooLate(Illegal):
    """The state allows the act, but the time of the reservation is in the past."""


def perform(act: Act, reservation: Reservation, by: UserType, now: datetime) -> Reservation:
    """Return the reservation after `act`. `reservation` already has the validated values of a change or proposal."""
    rule = RULES[act]
    if by not in rule.by:
        raise Illegal(f"A {by} may not {act}.")
    if reservation.status not in rule.when:
        raise Illegal(f"The reservation is {reservation.status}. It is not possible to {act}.")
    slot_time = reservation.slot_time
    if act is Act.CONFIRM_PROPOSAL:
        if reservation.proposed_time is None:
            raise Illegal("No time has been proposed.")
        slot_time = reservation.proposed_time
    if rule.then is Status.ACCEPTED and slot_time <= now:
        raise TooLate("The time of the reservation is in the past.")
    return replace(
        reservation,
        status=rule.then,
        version=reservation.version + 1,
        slot_time=slot_time,
        proposed_time=reservation.proposed_time if act is Act.POSTPONE else None,
    )
