"""A token bucket per key: per user, or per source of failed authentications.

The buckets are in the process's memory, because the limit protects the process: n replicas allow n times the rate.
"""

import time
from collections.abc import Callable

from tablebell.token_bucket import TokenBucket


class RateLimit:
    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic, max_keys: int = 100_000
    ) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._max_keys = max_keys
        self._buckets: dict[object, TokenBucket] = {}

    def take(self, key: object) -> float:
        """Return 0 if the request is allowed, otherwise the seconds to wait."""
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= self._max_keys:
                self._evict(now)
            bucket = self._buckets[key] = TokenBucket(self._per_second, self._burst, now)
        return bucket.take(now)

    def _evict(self, now: float) -> None:
        """Drop buckets that are full again. If none is, drop the least recently used half."""
        full_after = self._burst / self._per_second
        kept = {key: bucket for key, bucket in self._buckets.items() if now - bucket.updated_at < full_after}
        if len(kept) >= self._max_keys:
            by_age = sorted(kept, key=lambda key: kept[key].updated_at)
            kept = {key: kept[key] for key in by_age[len(by_age) // 2 :]}
        self._buckets = kept
