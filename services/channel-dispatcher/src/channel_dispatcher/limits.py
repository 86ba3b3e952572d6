"""How fast a channel may go: so many at a time, so many a second."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

# A round is on its way, one waits for its turn, one is being claimed: no connection idles while the database is asked.
ROUNDS_IN_HAND = 3


@dataclass(frozen=True, slots=True)
class Limits:
    concurrency: int
    per_second: float | None = None

    def window(self, allowance: int) -> int:
        """How many rows to have in hand at most. Few when the channel is slow, since others may be more urgent then."""
        if allowance < self.concurrency:
            return allowance
        window = ROUNDS_IN_HAND * self.concurrency
        return window if self.per_second is None else max(1, min(window, int(self.per_second / 4)))


class Pace:
    """Hands out one moment after another, evenly, at most `per_second` of them. What was not used is not saved up."""

    def __init__(self, per_second: float | None, clock: Callable[[], float]) -> None:
        self._interval = None if per_second is None else 1.0 / per_second
        self._clock = clock
        self._next = 0.0

    async def turn(self) -> None:
        if self._interval is None:
            return
        now = self._clock()
        mine = max(now, self._next)
        self._next = mine + self._interval
        if mine > now:
            await asyncio.sleep(mine - now)
