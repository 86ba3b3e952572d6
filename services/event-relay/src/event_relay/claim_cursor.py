"""The position after which the next claim reads the due events.

A claim continues where the last one ended. At the end of the due events it re-scans 2 s back: late commits carry
earlier timestamps. Commits that are even later are found by the next poll, which starts at the beginning.

An event that is blocked by an open predecessor of its aggregate does not wait for the poll: the cursor moves back to
it as soon as the predecessor has an outcome.
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
        self.position = START
        self._blocked: dict[Aggregate, Position] = {}
        """Per aggregate, the position before its first blocked event."""
        # A running claim does not see what is settled meanwhile: `end_claim` applies it to the claim's result.
        self._settled_meanwhile: set[Aggregate] = set()
        self._reclaimable_meanwhile: list[Position] = []

    def restart(self) -> None:
        self.position = START

    def begin_claim(self) -> Position:
        self._settled_meanwhile.clear()
        self._reclaimable_meanwhile.clear()
        if self.position == START:
            self._blocked.clear()
        return self.position

    def end_claim(self, batch: Batch) -> bool:
        """Advance past the batch. Returns whether the cursor moved back for an event that can be claimed now."""
        self.position = batch.reached
        if not batch.more and self.position != START:
            self.position = Position(self.position.due - COMMIT_SKEW, 0)
        for row in batch.held:
            seen = _just_before(row)
            self._blocked[_aggregate(row)] = min(seen, self._blocked.get(_aggregate(row), seen))
        return self._move_back(self._reclaimable_meanwhile + self._unblock(self._settled_meanwhile))

    def settle(self, rows: Sequence[asyncpg.Record], *, all_confirmed: bool) -> bool:
        """The rows have an outcome. Returns whether the cursor moved back for an event that can be claimed now."""
        aggregates = {_aggregate(row) for row in rows}
        positions = self._unblock(aggregates)
        if not all_confirmed:
            positions += map(_just_before, rows)
        self._settled_meanwhile |= aggregates
        self._reclaimable_meanwhile += positions
        return self._move_back(positions)

    def _unblock(self, aggregates: Iterable[Aggregate]) -> list[Position]:
        return [self._blocked.pop(aggregate) for aggregate in aggregates if aggregate in self._blocked]

    def _move_back(self, positions: Sequence[Position]) -> bool:
        self.position = min([self.position, *positions])
        return bool(positions)


def _aggregate(row: asyncpg.Record) -> Aggregate:
    return row["aggregate_type"], row["aggregate_id"]


def _just_before(row: asyncpg.Record) -> Position:
    return Position(row["due"], row["id"] - 1)
