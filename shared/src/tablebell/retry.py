"""Retry policies and backoff. Pure."""

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The n-th pause follows the n-th failure; the last one repeats. A row is buried after `max_attempts` failures."""

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
        """The pause after so many failures, with jitter, so that rows that failed together are not retried together."""
        pause = self.pauses[min(failures, len(self.pauses)) - 1]
        return pause * random.uniform(1 - self.jitter, 1 + self.jitter)  # noqa: S311 - jitter, not cryptography


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
