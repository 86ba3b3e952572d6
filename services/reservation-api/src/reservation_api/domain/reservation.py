"""The state machine of a reservation: which act is legal in which state, by whom, and what it leads to. Pure.

Every act that is legal makes a new version; an act that is not changes nothing. Staff decide on what is open
(NOT_ACCEPTED), the customer may answer a proposed time (POSTPONED), and change or cancel until it is over.
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
    """What a person says to a notification; the action_type of notification_action."""

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
    by: UserType
    when: frozenset[Status]
    then: Status
    event_type: EventType
    action: Action


OPEN = frozenset({Status.NOT_ACCEPTED})
PROPOSED = frozenset({Status.POSTPONED})
ALIVE = frozenset({Status.NOT_ACCEPTED, Status.ACCEPTED, Status.POSTPONED})

STAFF, CUSTOMER = UserType.RESTAURANT_USER, UserType.CUSTOMER

RULES: Mapping[Act, Rule] = {
    Act.ACCEPT: Rule(STAFF, OPEN, Status.ACCEPTED, EventType.RESERVATION_ACCEPTED, Action.CONFIRMED),
    Act.REJECT: Rule(STAFF, OPEN, Status.REJECTED, EventType.RESERVATION_REJECTED, Action.REJECTED),
    Act.POSTPONE: Rule(STAFF, OPEN, Status.POSTPONED, EventType.RESERVATION_POSTPONED, Action.POSTPONED),
    # What has changed has to be accepted again, even if it had been.
    Act.CHANGE: Rule(CUSTOMER, ALIVE, Status.NOT_ACCEPTED, EventType.RESERVATION_CHANGED, Action.CUSTOM),
    Act.CANCEL: Rule(CUSTOMER, ALIVE, Status.CANCELLED, EventType.RESERVATION_CANCELLED, Action.CUSTOM),
    Act.CONFIRM_PROPOSAL: Rule(CUSTOMER, PROPOSED, Status.ACCEPTED, EventType.RESERVATION_ACCEPTED, Action.CONFIRMED),
    # Not REJECTED: that is the restaurant's word, and staff hear of a cancellation only.
    Act.DECLINE_PROPOSAL: Rule(CUSTOMER, PROPOSED, Status.CANCELLED, EventType.RESERVATION_CANCELLED, Action.REJECTED),
}

# The act behind an action on a notification: staff on what they share, a customer on a proposed time.
STAFF_ACTS: Mapping[Action, Act] = {
    Action.CONFIRMED: Act.ACCEPT,
    Action.REJECTED: Act.REJECT,
    Action.POSTPONED: Act.POSTPONE,
}
CUSTOMER_ACTS: Mapping[Action, Act] = {
    Action.CONFIRMED: Act.CONFIRM_PROPOSAL,
    Action.REJECTED: Act.DECLINE_PROPOSAL,
}


@dataclass(frozen=True, slots=True)
class Reservation:
    """What the rules look at."""

    status: Status
    version: int
    slot_time: datetime
    party_size: int
    note: str | None
    proposed_time: datetime | None


class Illegal(Exception):
    """The act is not legal in the reservation's state."""


class TooLate(Illegal):
    """It would be legal, but its time has passed."""


def perform(act: Act, reservation: Reservation, by: UserType, now: datetime) -> Reservation:
    """The reservation after `act`; what a change or a proposal sets is in `reservation` already, validated."""
    rule = RULES[act]
    if by is not rule.by:
        raise Illegal(f"A {by} may not {act}.")
    if reservation.status not in rule.when:
        raise Illegal(f"The reservation is {reservation.status}: there is nothing to {act}.")
    slot_time = reservation.slot_time
    if act is Act.CONFIRM_PROPOSAL:
        if reservation.proposed_time is None:
            raise Illegal("No time has been proposed.")
        slot_time = reservation.proposed_time
    if rule.then is Status.ACCEPTED and slot_time <= now:
        raise TooLate("The time of the reservation has passed.")
    return replace(
        reservation,
        status=rule.then,
        version=reservation.version + 1,
        slot_time=slot_time,
        proposed_time=reservation.proposed_time if act is Act.POSTPONE else None,
    )
