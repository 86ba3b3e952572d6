"""How much is in hand, and how fast it goes."""

import asyncio

from channel_dispatcher.limits import Limits, RateLimiter


def test_a_fast_channel_has_a_tenth_of_a_second_in_hand_and_a_slow_one_a_round() -> None:
    limits = Limits(concurrency=16)
    assert limits.window(16, send_seconds=1.0) == 32
    assert limits.window(16, send_seconds=0.01) == 16 + 160
    assert limits.window(16, send_seconds=0.0) == 16 + 256


def test_a_channel_that_ramps_up_has_no_more_in_hand_than_it_may() -> None:
    assert Limits(concurrency=16).window(1, send_seconds=0.001) == 1
    assert Limits(concurrency=16).window(0, send_seconds=0.001) == 0


def test_a_channel_with_a_rate_hoards_nothing() -> None:
    assert Limits(concurrency=16, per_second=10).window(16, send_seconds=0.001) == 2
    assert Limits(concurrency=16, per_second=1).window(16, send_seconds=0.001) == 1


async def test_turns_come_evenly_and_none_are_saved_up() -> None:
    clock = asyncio.get_running_loop().time
    pace = RateLimiter(50, clock)
    await asyncio.sleep(0.1)
    began = clock()
    for _ in range(6):
        await pace.acquire()
    assert clock() - began >= 0.095
