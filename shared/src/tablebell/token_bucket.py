"""A token bucket: `burst` tokens at once, refilled at `per_second`. Pure: the caller passes the time.

A bucket never holds more than `burst` tokens. It has slots because there is one per connection or user.
"""


class TokenBucket:
    __slots__ = ("_burst", "_per_second", "_tokens", "updated_at")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self.updated_at = now

    def take(self, now: float) -> float:
        """Take one token. Return 0, or the seconds until there is one."""
        self._tokens = min(self._burst, self._tokens + (now - self.updated_at) * self._per_second)
        self.updated_at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._per_second
        self._tokens -= 1
        return 0.0
