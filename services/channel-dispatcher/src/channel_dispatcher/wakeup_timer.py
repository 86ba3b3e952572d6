"""Wakes a loop after a delay. One timer serves all delays that end within the same tenth of a second."""

import asyncio
import math

from tablebell.wakeups import Wakeup

# A pause starts when it is recorded, slightly after it was computed: an earlier wake-up would find nothing due.
MARGIN_SECONDS = 0.15
TICK_SECONDS = 0.1


class WakeupTimer:
    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        self._ticks: set[int] = set()

    def wake_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        tick = math.ceil((loop.time() + seconds + MARGIN_SECONDS) / TICK_SECONDS)
        if tick not in self._ticks:
            self._ticks.add(tick)
            loop.call_at(tick * TICK_SECONDS, self._wake, tick)

    def _wake(self, tick: int) -> None:
        self._ticks.discard(tick)
        self._wakeup.now()
