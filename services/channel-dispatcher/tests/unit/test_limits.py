"""The claim window and the rate limiter."""

import asyncio

from channel_dispatcher.limits import Limits, RateLimiter


def test_a_fast_channel_claims_a_tenth_of_a_second_ahead_and_a_slow_one_a_round() -> None:
    limits = Limits(concurrency=16)
    assert limits.window(16, send_seconds=1.0) == 32
    assert limits.window(16, send_seconds=0.01) == 16 + 160
    assert limits.window(16, send_seconds=0.0) == 16 + 256


def test_the_window_is_the_allowance_while_the_channel_ramps_up() -> None:
    assert Limits(concurrency=16).window(1, send_seconds=0.001) == 1
    assert Limits(concurrency=16).window(0, send_seconds=0.001) == 0


def test_a_channel_with_a_rate_limit_claims_little_ahead() -> None:
    assert Limits(concurrency=16, per_second=10).window(16, send_seconds=0.001) == 2
    assert Limits(concurrency=16, per_second=1).window(16, send_seconds=0.001) == 1


async def test_calls_are_slimiterd_evenly_and_unused_capacity_is_lost() -> None:
    clock = asyncio.get_running_loop().time
    limiter = RateLimiter(50, clock)
    await asyncio.sleep(0.1)
    began = clock()
    for _ in range(6):
        await limiter.acquire()
    assert clock() - began >= 0.095
