"""A row of L2 as it was claimed: everything that sending it takes, and the proof that it is ours. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Delivery:
    id: int
    token: UUID
    """The lease: whoever writes the row's outcome shows it."""
    attempt_id: int
    attempt: int
    """Which try this is, from 1."""
    user_type: str
    user_id: int
    recipient: str
    message: Mapping[str, Any]
    headers: Mapping[str, Any]
    created_at: datetime

    @property
    def key(self) -> str:
        """The same for every attempt at this row, and for no other row: what a provider may know duplicates by."""
        return f"{self.id}-{self.created_at.timestamp():.6f}".replace(".", "")


# A send that begins within this last part of its lease would hardly reach the provider before the lease ends.
LEASE_MARGIN = 0.1


@dataclass(slots=True)
class LeasedDelivery:
    """A delivery in hand, and until when its lease is known to last, on this process's monotonic clock.

    The database's clock decides when a lease ends, and this process may have been stopped since it last asked. The
    lease counts from before the statement that took or renewed it was sent, so that the known end is never too late.
    """

    delivery: Delivery
    until: float


def lease_end(asked_at: float, lease: timedelta) -> float:
    """Until when a send may begin under a lease that was asked for at `asked_at`."""
    return asked_at + lease.total_seconds() * (1 - LEASE_MARGIN)
