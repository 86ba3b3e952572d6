"""When to try again, and when to give up. Pure."""

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`pauses[n]` follows the n-th failure; the last one repeats. After `max_attempts` failures the row is buried."""

    max_attempts: int
    pauses: tuple[timedelta, ...]
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.max_attempts < 1 or not self.pauses or not 0 <= self.jitter < 1:
            raise ValueError("a retry policy needs an attempt, a pause and a jitter below 1")

    @classmethod
    def exponential(
        cls,
        max_attempts: int,
        first: timedelta = timedelta(seconds=1),
        factor: float = 4.0,
        longest: timedelta = timedelta(minutes=5),
    ) -> Self:
        pauses = tuple(min(longest, first * factor**n) for n in range(max(1, max_attempts - 1)))
        return cls(max_attempts, pauses)

    def pause_after(self, failures: int) -> timedelta:
        """How long to wait after so many failures, spread so that what failed together does not return together."""
        pause = self.pauses[min(failures, len(self.pauses)) - 1]
        return pause * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - spreading load, not hiding anything


@dataclass(slots=True)
class Backoff:
    """Pauses between attempts to reach a server: each one doubles, up to `longest`. All values are in seconds."""

    first: float = 0.2
    longest: float = 2.0
    _following: float | None = field(default=None, init=False)

    def next(self) -> float:
        """The pause after one more failure in a row."""
        pause = min(self.longest, self.first if self._following is None else self._following)
        self._following = 2 * pause
        return pause

    def reset(self) -> None:
        """Start again at `first`: an attempt succeeded."""
        self._following = None
