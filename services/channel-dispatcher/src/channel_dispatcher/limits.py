"""The limits of a channel: concurrent sends, sends per second and per day. Pure."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

# Claim this far ahead, so that no connection is idle during the next claim.
AHEAD_SECONDS = 0.1
# At most this many rounds of sends: rows claimed ahead wait for their lease to end if this process crashes.
MAX_ROUNDS_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Limits:
    concurrency: int
    per_second: float | None = None
    per_day: int = 0
    """In 24 hours, of all processes together; 0 is no limit."""

    def window(self, allowance: int, send_seconds: float) -> int:
        """How many rows may be in flight, given the duration of a send. Few for a slow channel: a row that is more
        urgent than those in flight has to wait for them."""
        if allowance < self.concurrency:
            return allowance
        rounds = min(max(1.0, AHEAD_SECONDS / max(send_seconds, 1e-6)), MAX_ROUNDS_AHEAD)
        window = self.concurrency + int(rounds * self.concurrency)
        return window if self.per_second is None else max(1, min(window, int(self.per_second * 2 * AHEAD_SECONDS)))


class RateLimiter:
    """Spaces calls evenly, at most `per_second`. Unused capacity does not accumulate."""

    def __init__(self, per_second: float | None, clock: Callable[[], float]) -> None:
        self._interval = None if per_second is None else 1.0 / per_second
        self._clock = clock
        self._next = 0.0

    async def acquire(self) -> None:
        if self._interval is None:
            return
        now = self._clock()
        slot = max(now, self._next)
        self._next = slot + self._interval
        if slot > now:
            await asyncio.sleep(slot - now)
