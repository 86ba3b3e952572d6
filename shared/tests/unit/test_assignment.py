"""Members that read the same locks compute the same shares."""

import pytest

from tablebell.partitions.assignment import FIRST_MEMBER, PARTITIONS, Assignment


def assignment(members: int, rank: int, owned: tuple[int, ...] = (), others: tuple[int, ...] = ()) -> Assignment:
    locks = [(FIRST_MEMBER + number, number == rank) for number in range(members)]
    return Assignment.read(locks + [(key, True) for key in owned] + [(key, False) for key in others])


@pytest.mark.parametrize("members", range(1, 21))
def test_shares_are_fair_and_add_up_to_all_partitions(members: int) -> None:
    shares = [assignment(members, rank).share for rank in range(members)]
    assert sum(shares) == PARTITIONS
    assert max(shares) - min(shares) <= 1


def test_a_member_above_its_share_releases_only_the_surplus() -> None:
    assert assignment(2, 0, owned=tuple(range(16))).surplus == list(range(8, 16))
    assert assignment(2, 0, owned=tuple(range(16))).wanted == []


def test_a_member_below_its_share_wants_only_free_partitions() -> None:
    assert assignment(2, 0, owned=(0, 1), others=(2, 3, 4)).wanted == [5, 6, 7, 8, 9, 10]
    assert assignment(2, 1, owned=tuple(range(8))).wanted == []


def test_members_start_at_different_free_partitions() -> None:
    wanted = [partition for rank in range(4) for partition in assignment(4, rank).wanted]
    assert sorted(wanted) == list(range(PARTITIONS))


def test_member_keys_need_not_be_consecutive() -> None:
    reading = Assignment.read([(FIRST_MEMBER + 7, True), (FIRST_MEMBER + 2, False)])
    assert reading.share == 8
    assert reading.next_member == FIRST_MEMBER + 2


def test_the_watches_form_one_ring() -> None:
    seen, current = set(), assignment(5, 0)
    while current.member not in seen:
        seen.add(current.member)
        assert current.next_member is not None
        current = assignment(5, current.next_member - FIRST_MEMBER)
    assert len(seen) == 5
    assert assignment(1, 0).next_member is None
