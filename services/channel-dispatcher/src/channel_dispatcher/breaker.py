"""The circuit breaker of a channel: limits how many messages may be in flight. Pure; the clock is an argument.

- CLOSED allows all messages. It opens after several consecutive failures to reach the provider, or after consecutive
  failures of messages to several different recipients. One recipient alone never opens it: it may be the cause itself.
- OPEN allows none, for a pause that doubles each time.
- HALF_OPEN allows one. If the provider answers, the breaker closes and ramps up: the allowance doubles every second, so
  that the backlog does not overload a provider that has just recovered.
- THROTTLED allows none until the provider's Retry-After is over.
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
        self._certain_failures = 0
        self._failed_recipients: set[Hashable] = set()
        self._throttled_recipients: set[Hashable] = set()
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
        """How many messages may be in flight now, at most `full`."""
        match self.state:
            case State.OPEN | State.THROTTLED:
                return 0
            case State.HALF_OPEN:
                return 1
            case State.CLOSED:
                return self._ramped(full)

    @property
    def cool_down(self) -> float:
        """For how many seconds from now no message is allowed."""
        now = self._clock()
        return max(0.0, (self._opened_until or now) - now, (self._throttled_until or now) - now)

    @property
    def next_change(self) -> float | None:
        """In how many seconds the allowance rises, if time alone raises it."""
        if self.cool_down > 0:
            return self.cool_down
        return self._ramp_seconds if self._ramp_since is not None else None

    def record_answer(self) -> bool:
        """The provider answered, with success or not. False if the call began before the breaker opened, so that the
        answer does not show that the provider works now."""
        if self.state is State.OPEN:
            return False
        if self.state is State.HALF_OPEN:
            self._opened_until = None
            self._ramp_since = self._clock()
        self._certain_failures = 0
        self._failed_recipients.clear()
        self._throttled_recipients.clear()
        self._pause = self._first_pause
        return True

    def record_failure(self, recipient: Hashable, *, certain: bool) -> bool:
        """A message to this recipient failed as in an outage. `certain`: the message cannot be the cause. True if this
        opened the breaker."""
        state = self.state
        if state is State.OPEN:
            return False
        self._certain_failures += certain
        self._failed_recipients.add(recipient)
        if (
            state is not State.HALF_OPEN
            and max(self._certain_failures, len(self._failed_recipients)) < self._failures_to_open
        ):
            return False
        self._opened_until = self._clock() + self._pause
        self._pause = min(self._longest_pause, self._pause * 2)
        return True

    def record_throttle(self, recipient: Hashable, seconds: float) -> bool:
        """One recipient may have a limit of its own; two in a row throttle the whole channel. Returns the value of
        `record_answer`."""
        throttled = self._throttled_recipients | {recipient}
        works_now = self.record_answer()
        self._throttled_recipients = throttled
        if len(throttled) >= 2:
            until = self._clock() + seconds
            self._throttled_until = max(self._throttled_until or until, until)
            self._ramp_since = self._throttled_until
        return works_now

    def _ramped(self, full: int) -> int:
        if self._ramp_since is None:
            return full
        steps = int((self._clock() - self._ramp_since) / self._ramp_seconds)
        allowed: int = 1 << min(max(0, steps), 30)
        if allowed >= full:
            self._ramp_since = None
            return full
        return allowed
