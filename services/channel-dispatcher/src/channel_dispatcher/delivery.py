"""A claimed row of L2, with everything that a send needs and the lease token. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Delivery:
    id: int
    token: UUID
    """The lease token: a row's outcome is written only if it still has this token."""
    attempt_id: int
    attempt: int
    """The number of this attempt, from 1."""
    user_type: str
    user_id: int
    recipient: str
    message: Mapping[str, Any]
    headers: Mapping[str, Any]
    created_at: datetime

    @property
    def key(self) -> str:
        """The idempotency key: the same for every attempt at this row, different for every other row."""
        return f"{self.id}-{self.created_at.timestamp():.6f}".replace(".", "")


# No send starts in this last fraction of a lease: it might reach the provider after the lease has ended.
LEASE_MARGIN = 0.1


@dataclass(slots=True)
class InFlightDelivery:
    """A delivery that this process works on, with the end of its lease on this process's monotonic clock.

    The database's clock decides when a lease ends. The local end counts from before the statement that took or extended
    the lease was sent, so it is never too late.
    """

    delivery: Delivery
    lease_until: float


def lease_end(leased_at: float, lease: timedelta) -> float:
    """Until when a send may start; `leased_at` is the time just before the claim or the extension was sent."""
    return leased_at + lease.total_seconds() * (1 - LEASE_MARGIN)
