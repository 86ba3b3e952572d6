"""A row of L2 as it was claimed: everything that sending it takes, and the proof that it is ours. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
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
