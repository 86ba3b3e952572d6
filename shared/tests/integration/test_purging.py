"""The purge loop of every service."""

import asyncio
from itertools import pairwise

from tablebell.lifecycle import Stop
from tablebell.purging import SHORTEST_PAUSE, keep_purging
from tablebell.testing import eventually


class Bites:
    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)
        self.times: list[float] = []

    async def __call__(self) -> bool:
        self.times.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if self._answers else False
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_it_pauses_between_batches_and_continues_until_nothing_is_left(stop: Stop) -> None:
    bites = Bites(True, True, False)
    purging = asyncio.create_task(keep_purging("test", bites, 600.0, stop, first_after=0.0))
    await eventually(lambda: len(bites.times) == 3)
    assert all(later - earlier >= SHORTEST_PAUSE for earlier, later in pairwise(bites.times))
    stop.request()
    await purging


async def test_an_unexpected_error_is_retried_at_the_next_interval(stop: Stop) -> None:
    bites = Bites(ValueError("a row that cannot be deleted"), True, False)
    purging = asyncio.create_task(keep_purging("test", bites, 0.2, stop))
    await eventually(lambda: len(bites.times) >= 3)
    assert not purging.done()
    stop.request()
    await purging
