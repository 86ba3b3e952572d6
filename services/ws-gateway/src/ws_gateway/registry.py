"""The authenticated sessions of this process, by the address of their user.

The sessions of an address are a tuple that is replaced, never changed: sessions may be removed during an iteration.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from ws_gateway import metrics

SessionT = TypeVar("SessionT")


class Registry(Generic[SessionT]):
    def __init__(self, max_per_address: int) -> None:
        self._max_per_address = max_per_address
        self._sessions: dict[str, tuple[SessionT, ...]] = {}

    def add(self, address: str, session: SessionT) -> bool:
        """Return False when the user already has the maximum number of sessions."""
        present = self._sessions.get(address, ())
        if len(present) >= self._max_per_address:
            return False
        self._sessions[address] = (*present, session)
        metrics.USERS.set(len(self._sessions))
        return True

    def remove(self, address: str, session: SessionT) -> None:
        """Idempotent."""
        rest = tuple(other for other in self._sessions.get(address, ()) if other is not session)
        if rest:
            self._sessions[address] = rest
        else:
            self._sessions.pop(address, None)
        metrics.USERS.set(len(self._sessions))

    def get(self, address: str) -> tuple[SessionT, ...]:
        return self._sessions.get(address, ())

    def all(self) -> Iterator[SessionT]:
        for sessions in list(self._sessions.values()):
            yield from sessions
