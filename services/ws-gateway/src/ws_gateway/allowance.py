"""How much a peer may send: a burst at once, and so much a second for ever."""


class Allowance:
    __slots__ = ("_at", "_burst", "_left", "_per_second")

    def __init__(self, burst: int, per_second: float, now: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left = float(burst)
        self._at = now

    def spend(self, now: float) -> bool:
        """False when there is nothing left."""
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
