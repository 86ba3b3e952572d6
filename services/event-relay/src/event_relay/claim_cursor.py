"""How far the claims have come through what is due, and when they have to go back.

A wake-up goes on from where the last claim came to, with some slack, since who commits late has an early time. What is
behind that is found by the sweep from the start, at each poll. An event that was seen behind an open one of its
aggregate does not wait for that: it is gone back for as soon as that one has its outcome.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeAlias

import asyncpg

from tablebell.outbox import START, Batch, Position

COMMIT_SKEW = timedelta(seconds=2)

Aggregate: TypeAlias = tuple[str, int]


class ClaimCursor:
    def __init__(self) -> None:
        self.after = START
        self._held: dict[Aggregate, Position] = {}
        """Where the first event was seen of those that wait for an open one before them."""
        # What happened since the claim began, and is not known to its answer.
        self._landed: set[Aggregate] = set()
        self._missed: list[Position] = []

    def restart(self) -> None:
        self.after = START

    def begin_claim(self) -> Position:
        self._landed.clear()
        self._missed.clear()
        if self.after == START:
            self._held.clear()
        return self.after

    def end_claim(self, batch: Batch) -> bool:
        """Note how far it came; whether there is something to go back for already."""
        self.after = batch.reached
        if not batch.more and self.after != START:
            self.after = Position(self.after.due - COMMIT_SKEW, 0)
        for row in batch.held:
            seen = _just_before(row)
            self._held[_aggregate(row)] = min(seen, self._held.get(_aggregate(row), seen))
        return self._go_back(self._missed + self._unblocked_by(self._landed))

    def land(self, rows: Sequence[asyncpg.Record], *, all_done: bool) -> bool:
        """These rows have their outcome; whether there is something to go back for."""
        aggregates = {_aggregate(row) for row in rows}
        positions = self._unblocked_by(aggregates)
        if not all_done:
            positions += map(_just_before, rows)
        self._landed |= aggregates
        self._missed += positions
        return self._go_back(positions)

    def _unblocked_by(self, aggregates: Iterable[Aggregate]) -> list[Position]:
        return [self._held.pop(aggregate) for aggregate in aggregates if aggregate in self._held]

    def _go_back(self, positions: Sequence[Position]) -> bool:
        self.after = min([self.after, *positions])
        return bool(positions)


def _aggregate(row: asyncpg.Record) -> Aggregate:
    return row["aggregate_type"], row["aggregate_id"]


def _just_before(row: asyncpg.Record) -> Position:
    return Position(row["due"], row["id"] - 1)
