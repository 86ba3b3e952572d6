"""When the relay claims next, from which position, and how long it pauses after an outage.

A wake-up leads to a claim from the current position. Without one, an idle relay makes one query per poll, and one
when a planned event or a retry becomes due. Each poll, and each gained partition, moves the position to the start.
"""

import time
from collections.abc import Callable

from event_relay.claim_cursor import ClaimCursor
from event_relay.ordered_publisher import BatchResult
from event_relay.store import NextDue
from tablebell.outbox import Batch, Position
from tablebell.retry import Backoff

RECHECK_SECONDS = 0.5
"""A wake-up may announce a planned event: the time of the next due event is read again this soon after it."""
LONGEST_PAUSE = 5.0


class ClaimSchedule:
    """All times are on the monotonic clock. `poll_seconds` is the longest wait between two checks of the table."""

    def __init__(self, poll_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._cursor = ClaimCursor()
        self._partitions: frozenset[int] = frozenset()
        self._next_poll = 0.0
        self._next_check = 0.0
        self._checked_at = 0.0
        self._paused_until = 0.0
        self._backoff = Backoff(longest=LONGEST_PAUSE)

    @property
    def wait_seconds(self) -> float:
        """How long to wait for a wake-up."""
        return max(0.001, min(self._next_check, self._next_poll) - self._clock())

    @property
    def pause_seconds(self) -> float:
        """How long to claim nothing after an outage; 0 or less when there is no pause."""
        return self._paused_until - self._clock()

    def set_partitions(self, owned: frozenset[int]) -> None:
        if not owned <= self._partitions:
            self._cursor.restart()
        self._partitions = owned

    def needs_check(self) -> bool:
        """Whether to check for due events before a claim: yes when a timer has expired, no after a wake-up."""
        now = self._clock()
        if not self._partitions or now >= min(self._next_check, self._next_poll):
            return True
        self._next_check = min(self._next_check, now + RECHECK_SECONDS)
        return False

    def begin_check(self) -> Position:
        """Returns the position after which to look for due events."""
        self._checked_at = self._clock()
        if self._checked_at >= self._next_poll:
            self._cursor.restart()
            self._next_poll = self._checked_at + self._poll_seconds
        self._next_check = self._next_poll
        return self._cursor.position

    def end_check(self, found: NextDue) -> None:
        if found.seconds_until_next is not None:
            self._next_check = min(self._next_check, self._checked_at + found.seconds_until_next)

    def begin_claim(self) -> Position:
        """Returns the position after which to claim."""
        return self._cursor.begin_claim()

    def end_claim(self, batch: Batch) -> bool:
        """Returns whether events before the claimed ones can be claimed now."""
        return self._cursor.end_claim(batch)

    def settle(self, batch: Batch, result: BatchResult) -> bool:
        """The outcomes of the batch are recorded. Returns whether to claim at once."""
        if result.outage is None:
            self._backoff.reset()
        else:
            self._paused_until = self._clock() + self._backoff.next()
        unblocked = self._cursor.settle(batch.rows, all_confirmed=len(result.confirmed) == len(batch.rows))
        return unblocked or batch.more
