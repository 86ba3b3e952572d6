from datetime import timedelta

import pytest

from tablebell.retry import Backoff, RetryPolicy

SECOND = timedelta(seconds=1)


def test_pauses_grow_exponentially_up_to_the_longest() -> None:
    policy = RetryPolicy.exponential(6, first=SECOND, factor=10, longest=timedelta(minutes=5))
    assert [pause.total_seconds() for pause in policy.pauses] == [1, 10, 100, 300, 300]


def test_the_last_pause_repeats() -> None:
    policy = RetryPolicy(5, (SECOND, 2 * SECOND), jitter=0)
    assert [policy.pause_after(n) for n in (1, 2, 3, 9)] == [SECOND, 2 * SECOND, 2 * SECOND, 2 * SECOND]


def test_jitter_spreads_pauses_and_keeps_within_its_bounds() -> None:
    policy = RetryPolicy(5, (100 * SECOND,), jitter=0.2)
    pauses = {policy.pause_after(1).total_seconds() for _ in range(200)}
    assert len(pauses) > 100
    assert 80 <= min(pauses) < 90
    assert 110 < max(pauses) <= 120


@pytest.mark.parametrize(("attempts", "pauses", "jitter"), [(0, (SECOND,), 0.1), (5, (), 0.1), (5, (SECOND,), 1.0)])
def test_a_policy_that_makes_no_sense_is_refused(attempts: int, pauses: tuple[timedelta, ...], jitter: float) -> None:
    with pytest.raises(ValueError, match="a retry policy needs"):
        RetryPolicy(attempts, pauses, jitter)


def test_a_backoff_doubles_up_to_its_longest_pause_and_starts_again_after_a_success() -> None:
    backoff = Backoff(first=0.25, longest=2.0)
    assert [backoff.next() for _ in range(6)] == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0]
    backoff.reset()
    assert backoff.next() == 0.25


def test_a_first_pause_above_the_longest_is_cut() -> None:
    assert Backoff(first=5.0, longest=2.0).next() == 2.0
