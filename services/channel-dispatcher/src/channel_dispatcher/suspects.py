"""Tells a provider's outage from a row that fails by itself. Pure, and in memory only.

A timeout or a 503 looks the same in both cases. What happens next tells them apart: if the breaker opens, the failure
was the provider's; if another row is answered, it was the row's own. So a failure costs no attempt at first. It is
charged at the row's next failure, if it has turned out to be the row's own by then: a row that always fails is tried
once more than the policy says. A restart forgets what was not charged yet.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

MOST_ROWS = 10_000


class Finding(Enum):
    EVIDENCE = auto()  # nothing contradicts an outage
    NEUTRAL = auto()  # others were answered since the row's last failure, which an outage explains
    OWN = auto()  # the row's last failure was its own, and so is this one


@dataclass(slots=True)
class _Suspect:
    failures: int
    answers: int
    """How many answers there had been when it failed."""
    is_own: bool = False
    """The failure has turned out to be the row's own."""


class Suspects:
    def __init__(
        self, first_pause: timedelta = timedelta(seconds=1), longest: timedelta = timedelta(seconds=30)
    ) -> None:
        self._first_pause = first_pause
        self._longest = longest
        self._answers = 0
        self._rows: dict[int, _Suspect] = {}
        self._undecided: set[int] = set()

    def answered(self, row_id: int, *, is_proof: bool) -> None:
        """The provider answered about this row. `is_proof`: it shows that the provider works now."""
        self._rows.pop(row_id, None)
        self._undecided.discard(row_id)
        if not is_proof:
            return
        self._answers += 1
        for each in self._undecided:
            self._rows[each].is_own = True
        self._undecided.clear()

    def outage(self) -> None:
        """The breaker is open, which explains the failures since the last answer."""
        self._undecided.clear()

    def failed(self, row_id: int, *, certain: bool) -> Finding:
        """`certain`: it cannot be the row's own failure, so it is never charged."""
        suspect = self._rows.pop(row_id, None) or _Suspect(0, self._answers)
        is_own, is_contradicted = suspect.is_own, suspect.answers != self._answers
        suspect.failures += 1
        suspect.answers = self._answers
        self._rows[row_id] = suspect  # as the newest
        if certain:
            return Finding.EVIDENCE
        suspect.is_own = False
        self._undecided.add(row_id)
        self._drop_oldest()
        if is_own:
            return Finding.OWN
        return Finding.NEUTRAL if is_contradicted else Finding.EVIDENCE

    def hold_back(self, row_id: int) -> timedelta:
        """How much longer than the channel this row waits: doubles with each of its failures."""
        suspect = self._rows.get(row_id)
        if suspect is None:
            return timedelta(0)
        return min(self._longest, self._first_pause * (1 << min(suspect.failures - 1, 20)))

    def _drop_oldest(self) -> None:
        if len(self._rows) > MOST_ROWS:
            oldest = next(iter(self._rows))
            del self._rows[oldest]
            self._undecided.discard(oldest)
