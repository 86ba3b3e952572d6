import pytest

from tablebell.token_bucket import TokenBucket


def test_a_full_bucket_allows_exactly_one_burst() -> None:
    bucket = TokenBucket(per_second=1, burst=3, now=0.0)
    assert [bucket.take(0.0) for _ in range(4)] == [0, 0, 0, 1]


def test_time_refills_the_bucket_up_to_the_burst() -> None:
    bucket = TokenBucket(per_second=2, burst=2, now=0.0)
    assert [bucket.take(0.0) > 0 for _ in range(3)] == [False, False, True]
    assert [bucket.take(0.5) > 0 for _ in range(2)] == [False, True]
    assert [bucket.take(1_000.0) > 0 for _ in range(3)] == [False, False, True]


def test_an_empty_bucket_returns_the_seconds_until_the_next_token() -> None:
    bucket = TokenBucket(per_second=2, burst=1, now=0.0)
    bucket.take(0.0)
    wait = bucket.take(0.2)
    assert wait == pytest.approx(0.3)
    assert bucket.take(0.2 + wait) == 0
