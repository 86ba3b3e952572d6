"""Who is connected where: the open sockets of this process by the address of their person.

An address's sessions are a tuple that is replaced, never changed: whoever walks along it may lose sessions on the way.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from ws_gateway import metrics

SessionT = TypeVar("SessionT")


class Registry(Generic[SessionT]):
    def __init__(self, max_per_address: int) -> None:
        self._max_per_address = max_per_address
        self._sessions: dict[str, tuple[SessionT, ...]] = {}

    def join(self, address: str, session: SessionT) -> bool:
        """False when the person has as many connections as one may have."""
        present = self._sessions.get(address, ())
        if len(present) >= self._max_per_address:
            return False
        self._sessions[address] = (*present, session)
        metrics.USERS.set(len(self._sessions))
        return True

    def leave(self, address: str, session: SessionT) -> None:
        """Leaving twice is leaving."""
        rest = tuple(other for other in self._sessions.get(address, ()) if other is not session)
        if rest:
            self._sessions[address] = rest
        else:
            self._sessions.pop(address, None)
        metrics.USERS.set(len(self._sessions))

    def at(self, address: str) -> tuple[SessionT, ...]:
        return self._sessions.get(address, ())

    def everyone(self) -> Iterator[SessionT]:
        for sessions in list(self._sessions.values()):
            yield from sessions
