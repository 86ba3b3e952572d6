"""Who sits at the table and who owns what, and what follows from it for us. Pure.

Everybody reads the same locks and comes to the same shares, so that nobody has to lead.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

PARTITIONS = 16
FIRST_SEAT = 1000
LAST_SEAT = 1999


@dataclass(frozen=True, slots=True)
class Assignment:
    seats: tuple[int, ...]
    """Everybody's, by number."""
    seat: int
    """Ours."""
    owned: tuple[int, ...]
    """Our partitions."""
    free: tuple[int, ...]
    """Nobody's."""

    @classmethod
    def read(cls, locks: Iterable[tuple[int, bool]]) -> Self:
        """From the keys that are locked in our namespace, each with whether it is ours."""
        keys = dict(locks)
        seats = tuple(sorted(key for key in keys if FIRST_SEAT <= key <= LAST_SEAT))
        return cls(
            seats=seats,
            seat=next(seat for seat in seats if keys[seat]),
            owned=tuple(partition for partition in range(PARTITIONS) if keys.get(partition)),
            free=tuple(partition for partition in range(PARTITIONS) if partition not in keys),
        )

    @property
    def rank(self) -> int:
        return self.seats.index(self.seat)

    @property
    def share(self) -> int:
        """The shares differ by one at most, and add up to all partitions."""
        each, over = divmod(PARTITIONS, len(self.seats))
        return each + (self.rank < over)

    @property
    def surplus(self) -> list[int]:
        return list(self.owned[self.share :])

    @property
    def wanted(self) -> list[int]:
        """What to try to take: everyone begins elsewhere in what is free, so as not to meet."""
        begin = self.rank * len(self.free) // len(self.seats)
        turned = self.free[begin:] + self.free[:begin]
        return list(turned[: max(0, self.share - len(self.owned))])

    @property
    def is_whole(self) -> bool:
        """We are alone with everything: nothing can change without a word to us."""
        return len(self.owned) == PARTITIONS

    @property
    def neighbour(self) -> int | None:
        """Whose death is ours to notice."""
        if len(self.seats) == 1:
            return None
        return self.seats[(self.rank + 1) % len(self.seats)]
