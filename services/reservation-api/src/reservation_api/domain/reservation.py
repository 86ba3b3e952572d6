"""The state machine of a reservation: which act is legal in which state, for whom, and its result. Pure.

Every legal act creates a new version; an illegal act changes nothing. Staff decide on NOT_ACCEPTED reservations.
Customers, or their agency for them, answer a proposed time (POSTPONED), and can change or cancel a reservation that is
not closed. Staff cancel an accepted table, mark it as arrived or as a no-show, and can undo such a mark. They can undo
a decision until its event is due (UNDO_SECONDS).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from tablebell.events import EventType
from tablebell.people import UserType


class Status(StrEnum):
    NOT_ACCEPTED = "NOT_ACCEPTED"
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    POSTPONED = "POSTPONED"
    CANCELLED = "CANCELLED"
    ARRIVED = "ARRIVED"
    NO_SHOW = "NO_SHOW"


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
    CANCEL_AS_STAFF = "cancel for the restaurant"
    ARRIVE = "mark it as arrived"
    MISS = "mark it as a no-show"
    UNDO = "undo"
    UNDO_DECISION = "undo the decision"


@dataclass(frozen=True, slots=True)
class Rule:
    by: frozenset[UserType]
    when: frozenset[Status]
    then: Status
    event_type: EventType
    action: Action


OPEN = frozenset({Status.NOT_ACCEPTED})
PROPOSED = frozenset({Status.POSTPONED})
EXPECTED = frozenset({Status.ACCEPTED})
ATTENDED = frozenset({Status.ARRIVED, Status.NO_SHOW})
DECIDED = frozenset({Status.ACCEPTED, Status.REJECTED, Status.POSTPONED})
ALIVE = frozenset({Status.NOT_ACCEPTED, Status.ACCEPTED, Status.POSTPONED})

# Also the time of the last reminder, so that nobody who has arrived is reminded.
EARLIEST_ARRIVAL = timedelta(hours=2)

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
    # A request is rejected, not cancelled.
    Act.CANCEL_AS_STAFF: Rule(
        STAFF, EXPECTED | PROPOSED, Status.CANCELLED, EventType.RESERVATION_CANCELLED, Action.CUSTOM
    ),
    Act.ARRIVE: Rule(STAFF, EXPECTED, Status.ARRIVED, EventType.RESERVATION_ARRIVED, Action.CUSTOM),
    Act.MISS: Rule(STAFF, EXPECTED, Status.NO_SHOW, EventType.RESERVATION_NO_SHOW, Action.CUSTOM),
    Act.UNDO: Rule(STAFF, ATTENDED, Status.ACCEPTED, EventType.RESERVATION_REOPENED, Action.CUSTOM),
    Act.UNDO_DECISION: Rule(STAFF, DECIDED, Status.NOT_ACCEPTED, EventType.RESERVATION_DECISION_UNDONE, Action.CUSTOM),
}

# The acts of staff whose event is planned, so that they can be undone until it is due.
DECISIONS = frozenset({Act.ACCEPT, Act.REJECT, Act.POSTPONE})

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


class WrongTime(Illegal):
    """The state allows the act, but not now."""


class TooLate(WrongTime):
    """The time of the reservation is in the past."""


class TooEarly(WrongTime):
    """The time of the reservation has not come yet."""


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
    if act in {Act.ACCEPT, Act.CONFIRM_PROPOSAL} and slot_time <= now:
        raise TooLate("The time of the reservation is in the past.")
    if (act is Act.ARRIVE and slot_time - EARLIEST_ARRIVAL > now) or (act is Act.MISS and slot_time > now):
        raise TooEarly(f"The time of the reservation has not come yet. It is too early to {act}.")
    return replace(
        reservation,
        status=rule.then,
        version=reservation.version + 1,
        slot_time=slot_time,
        proposed_time=reservation.proposed_time if act is Act.POSTPONE else None,
    )
