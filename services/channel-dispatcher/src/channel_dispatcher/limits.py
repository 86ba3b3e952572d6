"""How fast a channel may go: so many at a time, so many a second."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

# So much of the future is in hand, that no connection idles while the database is asked for more.
AHEAD_SECONDS = 0.1
# But never more than so many rounds: what waits here waits for a crash of this process, too.
MOST_ROUNDS_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Limits:
    concurrency: int
    per_second: float | None = None

    def window(self, allowance: int, send_seconds: float) -> int:
        """How many rows to have in hand at most, when a send takes so long: few for a slow channel, since a row that is
        more urgent than those in hand has to wait for them."""
        if allowance < self.concurrency:
            return allowance
        rounds = min(max(1.0, AHEAD_SECONDS / max(send_seconds, 1e-6)), MOST_ROUNDS_AHEAD)
        window = self.concurrency + int(rounds * self.concurrency)
        return window if self.per_second is None else max(1, min(window, int(self.per_second * 2 * AHEAD_SECONDS)))


class RateLimiter:
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
