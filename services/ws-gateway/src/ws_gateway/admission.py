"""How many connections there may be: one pool for those that have not authenticated, one for the users.

A silent connection costs its sender nothing, so it must not take the place of a user. If the pool of the
unauthenticated is full, the oldest makes room: a real client authenticates at once, an idle one waits for its deadline.
"""

from typing import TYPE_CHECKING

from tablebell.sources import SourceCounter, TrustedProxies, source_of
from ws_gateway import metrics
from ws_gateway.settings import Settings

if TYPE_CHECKING:
    from ws_gateway.connection import Connection


class Admission:
    def __init__(self, settings: Settings) -> None:
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._max_unauthenticated = settings.max_unauthenticated
        self._max_users = settings.max_connections
        # The counted source, or None while only the proxy in front is known. The oldest connection comes first.
        self._unauthenticated: dict[Connection, str | None] = {}
        self._users: dict[Connection, str] = {}
        self._unauthenticated_sources = SourceCounter(settings.max_unauthenticated_per_source)
        self._user_sources = SourceCounter(settings.max_connections_per_source)

    def open(self, connection: "Connection") -> bool:
        """Take a new connection into the pool. Return False if its source has too many there."""
        source = None if self._proxies.trusts(connection.peer) else source_of(connection.peer)
        if source is not None and not self._unauthenticated_sources.add(source):
            metrics.REFUSED.labels(429).inc()
            return False
        self._unauthenticated[connection] = source
        metrics.UNAUTHENTICATED.set(len(self._unauthenticated))
        if len(self._unauthenticated) > self._max_unauthenticated:
            oldest = next(iter(self._unauthenticated))
            metrics.DROPPED.labels("unauthenticated").inc()
            self.release(oldest)
            oldest.abort()
        return True

    def identify(self, connection: "Connection", forwarded_for: list[str]) -> bool:
        """The headers are known: count the client behind a proxy. Return False if it has too many connections."""
        if connection not in self._unauthenticated:
            return False  # it has made room for another
        if self._unauthenticated[connection] is None:
            source = source_of(self._proxies.client(connection.peer, forwarded_for))
            if not self._unauthenticated_sources.add(source):
                return False
            self._unauthenticated[connection] = source
        return True

    def authenticate(self, connection: "Connection") -> bool:
        """Move a connection to the users. Return False if there are too many, at all or of this source."""
        source = self._unauthenticated.get(connection)
        if source is None or len(self._users) >= self._max_users or not self._user_sources.add(source):
            return False
        self.release(connection)
        self._users[connection] = source
        return True

    def source(self, connection: "Connection") -> str:
        """The client's address, or its network in IPv6."""
        return self._users.get(connection) or self._unauthenticated.get(connection) or connection.peer

    def release(self, connection: "Connection") -> None:
        """The connection is closed. Idempotent."""
        source = self._unauthenticated.pop(connection, None)
        metrics.UNAUTHENTICATED.set(len(self._unauthenticated))
        if source is not None:
            self._unauthenticated_sources.remove(source)
        user_source = self._users.pop(connection, None)
        if user_source is not None:
            self._user_sources.remove(user_source)
