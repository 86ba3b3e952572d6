"""The state machine: every act in every state by every user type."""

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from reservation_api.domain.reservation import RULES, Act, Illegal, Reservation, Status, TooEarly, TooLate, perform
from tablebell.people import UserType

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)
SLOT, PROPOSED = NOW + timedelta(days=1), NOW + timedelta(days=2)

STAFF, CUSTOMER, AGENCY = UserType.RESTAURANT_USER, UserType.CUSTOMER, UserType.AGENCY_USER
DECISIONS = {
    (Act.ACCEPT, Status.NOT_ACCEPTED): Status.ACCEPTED,
    (Act.REJECT, Status.NOT_ACCEPTED): Status.REJECTED,
    (Act.POSTPONE, Status.NOT_ACCEPTED): Status.POSTPONED,
    (Act.CANCEL_AS_STAFF, Status.ACCEPTED): Status.CANCELLED,
    (Act.CANCEL_AS_STAFF, Status.POSTPONED): Status.CANCELLED,
    (Act.ARRIVE, Status.ACCEPTED): Status.ARRIVED,
    (Act.MISS, Status.ACCEPTED): Status.NO_SHOW,
    (Act.UNDO, Status.ARRIVED): Status.ACCEPTED,
    (Act.UNDO, Status.NO_SHOW): Status.ACCEPTED,
    (Act.UNDO_DECISION, Status.ACCEPTED): Status.NOT_ACCEPTED,
    (Act.UNDO_DECISION, Status.REJECTED): Status.NOT_ACCEPTED,
    (Act.UNDO_DECISION, Status.POSTPONED): Status.NOT_ACCEPTED,
}
ANSWERS = {
    (Act.CHANGE, Status.NOT_ACCEPTED): Status.NOT_ACCEPTED,
    (Act.CHANGE, Status.ACCEPTED): Status.NOT_ACCEPTED,
    (Act.CHANGE, Status.POSTPONED): Status.NOT_ACCEPTED,
    (Act.CANCEL, Status.NOT_ACCEPTED): Status.CANCELLED,
    (Act.CANCEL, Status.ACCEPTED): Status.CANCELLED,
    (Act.CANCEL, Status.POSTPONED): Status.CANCELLED,
    (Act.CONFIRM_PROPOSAL, Status.POSTPONED): Status.ACCEPTED,
    (Act.DECLINE_PROPOSAL, Status.POSTPONED): Status.CANCELLED,
}
# An agency's user acts for the agency's customers.
LEGAL = {
    **{(*when, STAFF): then for when, then in DECISIONS.items()},
    **{(*when, guest): then for when, then in ANSWERS.items() for guest in (CUSTOMER, AGENCY)},
}
AT_THE_TABLE = {Act.ARRIVE, Act.MISS, Act.UNDO}


def reservation(status: Status, **changed: object) -> Reservation:
    given = {"version": 3, "slot_time": SLOT, "party_size": 4, "note": None, "proposed_time": PROPOSED}
    return Reservation(status=status, **(given | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(("act", "status", "by"), list(product(Act, Status, UserType)))
def test_an_act_is_legal_only_in_these_states_and_for_these_users(act: Act, status: Status, by: UserType) -> None:
    expected, now = LEGAL.get((act, status, by)), SLOT if act in AT_THE_TABLE else NOW
    if expected is None:
        with pytest.raises(Illegal):
            perform(act, reservation(status), by, now)
    else:
        after = perform(act, reservation(status), by, now)
        assert (after.status, after.version) == (expected, 4)


def test_a_confirmed_proposal_becomes_the_slot_time() -> None:
    after = perform(Act.CONFIRM_PROPOSAL, reservation(Status.POSTPONED), CUSTOMER, NOW)
    assert (after.slot_time, after.proposed_time) == (PROPOSED, None)


def test_a_proposal_keeps_the_slot_time() -> None:
    after = perform(Act.POSTPONE, reservation(Status.NOT_ACCEPTED), STAFF, NOW)
    assert (after.slot_time, after.proposed_time) == (SLOT, PROPOSED)


def test_a_reservation_in_the_past_can_be_rejected_but_not_accepted() -> None:
    over = reservation(Status.NOT_ACCEPTED, slot_time=NOW)
    with pytest.raises(TooLate):
        perform(Act.ACCEPT, over, STAFF, NOW)
    assert perform(Act.REJECT, over, STAFF, NOW).status is Status.REJECTED
    with pytest.raises(TooLate):
        perform(Act.CONFIRM_PROPOSAL, reservation(Status.POSTPONED, proposed_time=NOW), CUSTOMER, NOW)


def test_guests_arrive_from_two_hours_before_and_are_missed_from_the_time_on() -> None:
    table, minute = reservation(Status.ACCEPTED), timedelta(minutes=1)
    with pytest.raises(TooEarly):
        perform(Act.ARRIVE, table, STAFF, SLOT - timedelta(hours=2) - minute)
    assert perform(Act.ARRIVE, table, STAFF, SLOT - timedelta(hours=2)).status is Status.ARRIVED
    with pytest.raises(TooEarly):
        perform(Act.MISS, table, STAFF, SLOT - minute)
    assert perform(Act.MISS, table, STAFF, SLOT + timedelta(days=2)).status is Status.NO_SHOW


def test_every_act_has_a_rule() -> None:
    assert set(RULES) == set(Act)
