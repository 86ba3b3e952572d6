"""A token bucket per user: so many requests at once, so many a second in the long run.

In the memory of one process, since a limit protects that process; with n replicas a user may have n times as much.
"""

import time
from collections.abc import Callable

from tablebell.token_bucket import TokenBucket


class RateLimit:
    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic, remember: int = 100_000
    ) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._remember = remember
        self._buckets: dict[object, TokenBucket] = {}

    def take(self, who: object) -> float:
        """0 when the request may pass, else how many seconds to wait."""
        now = self._clock()
        bucket = self._buckets.get(who)
        if bucket is None:
            if len(self._buckets) >= self._remember:
                self._forget(now)
            bucket = self._buckets[who] = TokenBucket(self._per_second, self._burst, now)
        return bucket.take(now)

    def _forget(self, now: float) -> None:
        """A bucket that is full again is as good as none. If all are in use, the oldest half loses its count."""
        full_after = self._burst / self._per_second
        kept = {who: bucket for who, bucket in self._buckets.items() if now - bucket.updated_at < full_after}
        if len(kept) >= self._remember:
            by_age = sorted(kept, key=lambda who: kept[who].updated_at)
            kept = {who: kept[who] for who in by_age[len(by_age) // 2 :]}
        self._buckets = kept
