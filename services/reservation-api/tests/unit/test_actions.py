"""The actions that a notification offers match those of the state machine."""

from itertools import product

from reservation_api.domain.reservation import GUEST_ACTS, STAFF_ACTS, Action
from tablebell.events import EventType
from tablebell.inbox import actions_of, is_shared
from tablebell.people import Audience

OFFERS = {
    (EventType.RESERVATION_REQUESTED, Audience.RESTAURANT): {*STAFF_ACTS, Action.DISMISSED},
    (EventType.RESERVATION_CHANGED, Audience.RESTAURANT): {*STAFF_ACTS, Action.DISMISSED},
    (EventType.RESERVATION_DECISION_UNDONE, Audience.RESTAURANT): {*STAFF_ACTS, Action.DISMISSED},
    (EventType.RESERVATION_POSTPONED, Audience.CUSTOMER): set(GUEST_ACTS),
    (EventType.RESERVATION_POSTPONED, Audience.AGENCY): set(GUEST_ACTS),
}


def test_only_shared_notifications_and_proposed_times_have_actions_until_they_are_resolved() -> None:
    for event_type, audience in product(EventType, Audience):
        offered = actions_of(event_type, audience, resolved=False)
        assert set(offered) == OFFERS.get((event_type, audience), set()), (event_type, audience)
        assert actions_of(event_type, audience, resolved=True) == []


def test_only_staff_notifications_are_shared() -> None:
    shared = {pair for pair in product(EventType, Audience) if is_shared(*pair)}
    assert shared == {pair for pair in OFFERS if pair[1] is Audience.RESTAURANT}
