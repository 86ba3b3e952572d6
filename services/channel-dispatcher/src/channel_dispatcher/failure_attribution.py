"""Attributes each failure to the provider (an outage) or to the row itself. Pure, in memory only.

A timeout or a 503 looks the same in both cases; the next event decides. If the breaker opens, the provider caused the
failure. If the provider answers for another row, the row caused it. A failure therefore costs no attempt at first. It
is charged at the row's next failure if the row turned out to be the cause: a row that always fails is tried once more
than the policy says. A restart forgets failures that are not charged yet.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

MAX_ROWS = 10_000


class Cause(Enum):
    PROVIDER = auto()  # nothing contradicts an outage
    UNKNOWN = auto()  # an outage explains the row's last failure, but other rows were answered since
    ROW = auto()  # the row caused its last failure, and so this one


@dataclass(slots=True)
class _FailedRow:
    failures: int
    answers_at_failure: int
    """The value of the answer counter when the row last failed."""
    is_cause: bool = False
    """The row itself caused its last failure."""


class FailureAttribution:
    def __init__(
        self, first_delay: timedelta = timedelta(seconds=1), longest_delay: timedelta = timedelta(seconds=30)
    ) -> None:
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._answers = 0
        self._rows: dict[int, _FailedRow] = {}
        self._undecided: set[int] = set()

    def record_answer(self, row_id: int, *, works_now: bool) -> None:
        """The provider answered for this row. `works_now`: the answer shows that the provider works now."""
        self._rows.pop(row_id, None)
        self._undecided.discard(row_id)
        if not works_now:
            return
        self._answers += 1
        for each in self._undecided:
            self._rows[each].is_cause = True
        self._undecided.clear()

    def record_outage(self) -> None:
        """The breaker is open, which explains all failures since the last answer."""
        self._undecided.clear()

    def record_failure(self, row_id: int, *, certain: bool) -> Cause:
        """`certain`: the row cannot be the cause, so the failure is never charged."""
        row = self._rows.pop(row_id, None) or _FailedRow(0, self._answers)
        was_cause, others_answered = row.is_cause, row.answers_at_failure != self._answers
        row.failures += 1
        row.answers_at_failure = self._answers
        self._rows[row_id] = row  # last in the insertion order: the newest
        if certain:
            return Cause.PROVIDER
        row.is_cause = False
        self._undecided.add(row_id)
        self._drop_oldest()
        if was_cause:
            return Cause.ROW
        return Cause.UNKNOWN if others_answered else Cause.PROVIDER

    def extra_delay(self, row_id: int) -> timedelta:
        """How much longer than the channel this row waits: doubles with each of its failures."""
        row = self._rows.get(row_id)
        if row is None:
            return timedelta(0)
        return min(self._longest_delay, self._first_delay * (1 << min(row.failures - 1, 20)))

    def _drop_oldest(self) -> None:
        if len(self._rows) > MAX_ROWS:
            oldest = next(iter(self._rows))
            del self._rows[oldest]
            self._undecided.discard(oldest)
