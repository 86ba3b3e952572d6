"""Everybody who reads the same locks comes to the same shares."""

import pytest

from tablebell.partitions.assignment import FIRST_SEAT, PARTITIONS, Assignment


def seating(seats: int, rank: int, owned: tuple[int, ...] = (), others: tuple[int, ...] = ()) -> Assignment:
    locks = [(FIRST_SEAT + number, number == rank) for number in range(seats)]
    return Assignment.read(locks + [(key, True) for key in owned] + [(key, False) for key in others])


@pytest.mark.parametrize("members", range(1, 21))
def test_the_shares_are_fair_and_add_up_to_everything(members: int) -> None:
    shares = [seating(members, rank).share for rank in range(members)]
    assert sum(shares) == PARTITIONS
    assert max(shares) - min(shares) <= 1


def test_a_member_with_too_much_gives_up_just_the_surplus() -> None:
    assert seating(2, 0, owned=tuple(range(16))).surplus == list(range(8, 16))
    assert seating(2, 0, owned=tuple(range(16))).wanted == []


def test_a_member_with_too_little_wants_only_what_is_free() -> None:
    assert seating(2, 0, owned=(0, 1), others=(2, 3, 4)).wanted == [5, 6, 7, 8, 9, 10]
    assert seating(2, 1, owned=tuple(range(8))).wanted == []


def test_members_begin_elsewhere_in_what_is_free() -> None:
    wanted = [partition for rank in range(4) for partition in seating(4, rank).wanted]
    assert sorted(wanted) == list(range(PARTITIONS))


def test_seats_need_not_be_consecutive() -> None:
    gappy = Assignment.read([(FIRST_SEAT + 7, True), (FIRST_SEAT + 2, False)])
    assert gappy.share == 8
    assert gappy.neighbour == FIRST_SEAT + 2


def test_the_watches_form_one_ring() -> None:
    seats, at = set(), seating(5, 0)
    while at.seat not in seats:
        seats.add(at.seat)
        assert at.neighbour is not None
        at = seating(5, at.neighbour - FIRST_SEAT)
    assert len(seats) == 5
    assert seating(1, 0).neighbour is None
