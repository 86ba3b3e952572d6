from datetime import timedelta

import pytest

from tablebell.retry import RetryPolicy

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
