"""The breaker's states, by a clock that the test turns."""

import pytest

from channel_dispatcher.breaker import Breaker, State


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock, failures_to_open=3, first_pause=1.0, longest_pause=4.0, ramp_seconds=1.0)


def opened(breaker: Breaker) -> None:
    assert [breaker.record_failure(target, certain=False) for target in "abc"] == [False, False, True]


def unreachable(breaker: Breaker, target: str = "a") -> bool:
    return breaker.record_failure(target, certain=False)


def test_it_lets_everything_through_at_first(breaker: Breaker) -> None:
    assert (breaker.state, breaker.allowance(16), breaker.cool_down) == (State.CLOSED, 16, 0)


def test_it_opens_after_so_many_failures_in_a_row(breaker: Breaker) -> None:
    opened(breaker)
    assert (breaker.state, breaker.allowance(16), breaker.cool_down) == (State.OPEN, 0, 1.0)


def test_an_answer_in_between_starts_the_count_anew(breaker: Breaker) -> None:
    for _ in range(5):
        unreachable(breaker, "a")
        unreachable(breaker, "b")
        assert breaker.record_answer()
    assert breaker.state is State.CLOSED


def test_one_target_alone_does_not_open_it_however_often_it_fails(breaker: Breaker) -> None:
    assert not any(unreachable(breaker, "a") or unreachable(breaker, "b") for _ in range(10))
    assert breaker.state is State.CLOSED


def test_a_provider_that_is_certainly_not_there_needs_no_second_target(breaker: Breaker) -> None:
    assert [breaker.record_failure("a", certain=True) for _ in range(3)] == [False, False, True]


def test_after_the_pause_one_message_is_let_through(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 1.0
    assert (breaker.state, breaker.allowance(16)) == (State.HALF_OPEN, 1)


def test_each_probe_that_fails_doubles_the_pause_up_to_the_longest(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    pauses = []
    for _ in range(4):
        clock.now += breaker.cool_down
        assert unreachable(breaker)
        pauses.append(breaker.cool_down)
    assert pauses == [2.0, 4.0, 4.0, 4.0]


def test_a_late_failure_of_what_was_on_its_way_changes_nothing(breaker: Breaker) -> None:
    opened(breaker)
    assert not unreachable(breaker)
    assert breaker.cool_down == 1.0


def test_a_late_answer_to_what_was_on_its_way_does_not_close_it(breaker: Breaker) -> None:
    opened(breaker)
    assert not breaker.record_answer()
    assert breaker.state is State.OPEN


def test_an_answered_probe_closes_it_and_the_channel_ramps_up(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 1.0
    breaker.record_answer()
    allowed = []
    for _ in range(6):
        allowed.append(breaker.allowance(16))
        clock.now += 1.0
    assert allowed == [1, 2, 4, 8, 16, 16]


def test_the_next_outage_starts_with_the_first_pause_again(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += 1.0
    unreachable(breaker)
    clock.now += 2.0
    breaker.record_answer()
    opened(breaker)
    assert breaker.cool_down == 1.0


def test_one_throttled_message_stops_nobody_else(breaker: Breaker) -> None:
    breaker.record_throttle("a", 30)
    breaker.record_throttle("a", 30)
    assert breaker.allowance(16) == 16, "one device has a limit of its own"
    breaker.record_answer()
    breaker.record_throttle("b", 30)
    assert breaker.allowance(16) == 16


def test_two_throttled_in_a_row_stop_the_channel_until_the_wish_is_over(breaker: Breaker, clock: Clock) -> None:
    breaker.record_throttle("a", 30)
    breaker.record_throttle("b", 20)
    assert (breaker.state, breaker.allowance(16), breaker.cool_down) == (State.THROTTLED, 0, 20)
    clock.now += 20
    assert (breaker.state, breaker.allowance(16)) == (State.CLOSED, 1)
    clock.now += 4
    assert breaker.allowance(16) == 16


def test_it_says_when_more_will_be_let_through(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    assert breaker.next_change == 1.0
    clock.now += 1.0
    breaker.record_answer()
    assert breaker.next_change == 1.0
