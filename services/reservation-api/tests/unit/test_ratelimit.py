"""The rate limit, with a fake clock."""

import pytest

from reservation_api.ratelimit import RateLimit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_allowed_then_the_steady_rate() -> None:
    clock = Clock()
    limit = RateLimit(per_second=2, burst=3, clock=clock)
    assert [limit.take("anna") for _ in range(3)] == [0, 0, 0]
    assert limit.take("anna") == pytest.approx(0.5)
    assert limit.take("luis") == 0
    clock.now += 0.5
    assert limit.take("anna") == 0
    assert limit.take("anna") > 0
    clock.now += 3600
    assert [limit.take("anna") > 0 for _ in range(4)] == [False, False, False, True]


def test_memory_is_bounded_and_active_users_are_evicted_last() -> None:
    clock = Clock()
    limit = RateLimit(per_second=1, burst=1, clock=clock, max_keys=10)
    for number in range(9):
        limit.take(number)
    clock.now += 5
    limit.take("busy")
    limit.take("new")
    assert limit.take("busy") > 0
    for number in range(1000):
        limit.take(("crowd", number))
    assert len(limit._buckets) <= 10
