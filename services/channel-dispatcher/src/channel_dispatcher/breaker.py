"""The circuit breaker of a channel: how many messages it may have in hand right now. Pure; the clock is handed in.

CLOSED lets everything through. It opens when the provider could not be reached several times in a row, or when
messages to several different targets failed in a row as in an outage. One target alone never opens it: the fault may be
its own. OPEN lets nothing through, for a pause that doubles each time. Then HALF_OPEN lets one message through; if the
provider answers, the channel closes and ramps up, doubling what it may have in hand every second, so that a provider
that has just come back is not knocked over by the backlog. THROTTLED lets nothing through until the provider's own
Retry-After is over.
"""

from collections.abc import Callable, Hashable
from enum import StrEnum


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    THROTTLED = "throttled"


class Breaker:
    def __init__(
        self,
        clock: Callable[[], float],
        *,
        failures_to_open: int = 3,
        first_pause: float = 1.0,
        longest_pause: float = 30.0,
        ramp_seconds: float = 1.0,
    ) -> None:
        self._clock = clock
        self._failures_to_open = failures_to_open
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._ramp_seconds = ramp_seconds
        self._unreached = 0
        self._failed: set[Hashable] = set()
        self._throttles: set[Hashable] = set()
        self._pause = first_pause
        self._opened_until: float | None = None
        self._throttled_until: float | None = None
        self._ramp_since: float | None = None

    @property
    def state(self) -> State:
        now = self._clock()
        if self._opened_until is not None:
            return State.OPEN if now < self._opened_until else State.HALF_OPEN
        if self._throttled_until is not None and now < self._throttled_until:
            return State.THROTTLED
        return State.CLOSED

    def allowance(self, full: int) -> int:
        """How many messages may be in hand now, of `full` at best."""
        match self.state:
            case State.OPEN | State.THROTTLED:
                return 0
            case State.HALF_OPEN:
                return 1
            case State.CLOSED:
                return self._ramped(full)

    @property
    def cool_down(self) -> float:
        """For how many seconds from now nothing will be let through."""
        now = self._clock()
        return max(0.0, (self._opened_until or now) - now, (self._throttled_until or now) - now)

    @property
    def next_change(self) -> float | None:
        """In how many seconds more will be let through, if time alone changes that."""
        if self.cool_down > 0:
            return self.cool_down
        return self._ramp_seconds if self._ramp_since is not None else None

    def answered(self) -> bool:
        """The provider was there, whatever it said. False when that tells nothing of now: it was asked before the
        channel opened."""
        if self.state is State.OPEN:
            return False
        if self.state is State.HALF_OPEN:
            self._opened_until = None
            self._ramp_since = self._clock()
        self._unreached = 0
        self._failed.clear()
        self._throttles.clear()
        self._pause = self._first_pause
        return True

    def unreachable(self, target: Hashable, *, certain: bool) -> bool:
        """A message to this target failed as in an outage. `certain`: whatever the message was, it would have failed.
        True when this has opened the channel."""
        state = self.state
        if state is State.OPEN:
            return False
        self._unreached += certain
        self._failed.add(target)
        if state is not State.HALF_OPEN and max(self._unreached, len(self._failed)) < self._failures_to_open:
            return False
        self._opened_until = self._clock() + self._pause
        self._pause = min(self._longest_pause, self._pause * 2)
        return True

    def throttled(self, target: Hashable, seconds: float) -> bool:
        """One target may have a limit of its own. Two of them in a row are about us: the whole channel waits. Returns
        what `answered` returns."""
        throttles = self._throttles | {target}
        is_proof = self.answered()
        self._throttles = throttles
        if len(throttles) >= 2:
            until = self._clock() + seconds
            self._throttled_until = max(self._throttled_until or until, until)
            self._ramp_since = self._throttled_until
        return is_proof

    def _ramped(self, full: int) -> int:
        if self._ramp_since is None:
            return full
        steps = int((self._clock() - self._ramp_since) / self._ramp_seconds)
        allowed: int = 1 << min(max(0, steps), 30)
        if allowed >= full:
            self._ramp_since = None
            return full
        return allowed
