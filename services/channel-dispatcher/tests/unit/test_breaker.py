"""The states of the breaker, with a manual clock."""

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


def open_breaker(breaker: Breaker) -> None:
    assert [breaker.record_failure(recipient, certain=False) for recipient in "abc"] == [False, False, True]


def fail(breaker: Breaker, recipient: str = "a") -> bool:
    return breaker.record_failure(recipient, certain=False)


def test_the_breaker_starts_closed(breaker: Breaker) -> None:
    assert (breaker.state, breaker.allowance(16), breaker.cool_down) == (State.CLOSED, 16, 0)


def test_consecutive_failures_open_the_breaker(breaker: Breaker) -> None:
    open_breaker(breaker)
    assert (breaker.state, breaker.allowance(16), breaker.cool_down) == (State.OPEN, 0, 1.0)


def test_an_answer_resets_the_failure_count(breaker: Breaker) -> None:
    for _ in range(5):
        fail(breaker, "a")
        fail(breaker, "b")
        assert breaker.record_answer()
    assert breaker.state is State.CLOSED


def test_failures_of_too_few_recipients_never_open_the_breaker(breaker: Breaker) -> None:
    assert not any(fail(breaker, "a") or fail(breaker, "b") for _ in range(10))
    assert breaker.state is State.CLOSED


def test_certain_failures_open_the_breaker_with_one_recipient(breaker: Breaker) -> None:
    assert [breaker.record_failure("a", certain=True) for _ in range(3)] == [False, False, True]


def test_one_message_is_allowed_after_the_pause(breaker: Breaker, clock: Clock) -> None:
    open_breaker(breaker)
    clock.now += 1.0
    assert (breaker.state, breaker.allowance(16)) == (State.HALF_OPEN, 1)


def test_each_failed_probe_doubles_the_pause_up_to_the_longest(breaker: Breaker, clock: Clock) -> None:
    open_breaker(breaker)
    pauses = []
    for _ in range(4):
        clock.now += breaker.cool_down
        assert fail(breaker)
        pauses.append(breaker.cool_down)
    assert pauses == [2.0, 4.0, 4.0, 4.0]


def test_a_late_failure_of_a_message_in_flight_changes_nothing(breaker: Breaker) -> None:
    open_breaker(breaker)
    assert not fail(breaker)
    assert breaker.cool_down == 1.0


def test_a_late_answer_to_a_message_in_flight_does_not_close_the_breaker(breaker: Breaker) -> None:
    open_breaker(breaker)
    assert not breaker.record_answer()
    assert breaker.state is State.OPEN


def test_an_answered_probe_closes_the_breaker_and_the_allowance_ramps_up(breaker: Breaker, clock: Clock) -> None:
    open_breaker(breaker)
    clock.now += 1.0
    breaker.record_answer()
    allowed = []
    for _ in range(6):
        allowed.append(breaker.allowance(16))
        clock.now += 1.0
    assert allowed == [1, 2, 4, 8, 16, 16]


def test_the_next_outage_starts_with_the_first_pause(breaker: Breaker, clock: Clock) -> None:
    open_breaker(breaker)
    clock.now += 1.0
    fail(breaker)
    clock.now += 2.0
    breaker.record_answer()
    open_breaker(breaker)
    assert breaker.cool_down == 1.0


def test_one_throttled_recipient_does_not_throttle_the_channel(breaker: Breaker) -> None:
    breaker.record_throttle("a", 30)
    breaker.record_throttle("a", 30)
    assert breaker.allowance(16) == 16, "one device may have a limit of its own"
    breaker.record_answer()
    breaker.record_throttle("b", 30)
    assert breaker.allowance(16) == 16


def test_two_throttled_recipients_in_a_row_throttle_the_channel_for_retry_after(breaker: Breaker, clock: Clock) -> None:
    breaker.record_throttle("a", 30)
    breaker.record_throttle("b", 20)
    assert (breaker.state, breaker.allowance(16), breaker.cool_down) == (State.THROTTLED, 0, 20)
    clock.now += 20
    assert (breaker.state, breaker.allowance(16)) == (State.CLOSED, 1)
    clock.now += 4
    assert breaker.allowance(16) == 16


def test_next_change_is_the_time_until_the_allowance_rises(breaker: Breaker, clock: Clock) -> None:
    open_breaker(breaker)
    assert breaker.next_change == 1.0
    clock.now += 1.0
    breaker.record_answer()
    assert breaker.next_change == 1.0
