"""The members and the owners of the partitions, and what one member has to acquire or release. Pure.

All members read the same locks and compute the same shares, so no leader is needed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

PARTITIONS = 16
FIRST_MEMBER = 1000
LAST_MEMBER = 1999


@dataclass(frozen=True, slots=True)
class Assignment:
    members: tuple[int, ...]
    """The lock keys of all members, sorted."""
    member: int
    """Our key."""
    owned: tuple[int, ...]
    """Our partitions."""
    free: tuple[int, ...]
    """The partitions without an owner."""

    @classmethod
    def read(cls, locks: Iterable[tuple[int, bool]]) -> Self:
        """From the locked keys of our namespace, each with whether the lock is ours."""
        keys = dict(locks)
        members = tuple(sorted(key for key in keys if FIRST_MEMBER <= key <= LAST_MEMBER))
        return cls(
            members=members,
            member=next(member for member in members if keys[member]),
            owned=tuple(partition for partition in range(PARTITIONS) if keys.get(partition)),
            free=tuple(partition for partition in range(PARTITIONS) if partition not in keys),
        )

    @property
    def rank(self) -> int:
        return self.members.index(self.member)

    @property
    def share(self) -> int:
        """How many partitions are due to us. Shares differ by one at most and add up to all partitions."""
        each, remainder = divmod(PARTITIONS, len(self.members))
        return each + (self.rank < remainder)

    @property
    def surplus(self) -> list[int]:
        return list(self.owned[self.share :])

    @property
    def wanted(self) -> list[int]:
        """The free partitions to try. Each member starts at a different one, so that they rarely compete."""
        start = self.rank * len(self.free) // len(self.members)
        rotated = self.free[start:] + self.free[:start]
        return list(rotated[: max(0, self.share - len(self.owned))])

    @property
    def owns_all(self) -> bool:
        """We are the only member: every change from here is announced."""
        return len(self.owned) == PARTITIONS

    @property
    def next_member(self) -> int | None:
        """The member that we watch: the one after us in the ring."""
        if len(self.members) == 1:
            return None
        return self.members[(self.rank + 1) % len(self.members)]
