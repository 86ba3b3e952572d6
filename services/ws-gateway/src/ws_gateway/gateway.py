"""The state that all connections share, and the decision which handshakes are accepted."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from websockets.http11 import Request

from tablebell.lifecycle import Stop
from tablebell.token_bucket import TokenBucket
from tablebell.tokens import TokenVerifier
from ws_gateway import metrics
from ws_gateway.access_watch import AccessWatch
from ws_gateway.admission import Admission
from ws_gateway.close_codes import CloseCode
from ws_gateway.connection import Connection
from ws_gateway.encoded_frame import EncodedFrame
from ws_gateway.json_session import JsonSession
from ws_gateway.pages import Pages, plain
from ws_gateway.registry import Registry
from ws_gateway.revocations import Revocations
from ws_gateway.session import Session
from ws_gateway.settings import Settings
from ws_gateway.stomp_session import StompSession
from ws_gateway.write_coalescer import WriteCoalescer

SESSIONS: dict[str, type[JsonSession | StompSession]] = {"/ws": JsonSession, "/stomp": StompSession}
SUBPROTOCOLS = {"/ws": (), "/stomp": ("v12.stomp", "v11.stomp", "v10.stomp")}

AnySession: TypeAlias = Session[Any]


@dataclass(eq=False)
class Gateway:
    settings: Settings
    tokens: TokenVerifier
    revocations: Revocations
    registry: Registry[AnySession]
    pages: Pages
    stop: Stop
    admission: Admission
    connections: set[Connection] = field(default_factory=set)
    write_coalescer: WriteCoalescer = field(default_factory=WriteCoalescer)
    access_watch: AccessWatch | None = None
    """None if the gateway does not ask reservation-api about revoked tokens."""
    live: bool = False
    """Whether this process consumes frames from RabbitMQ."""
    _responding: set[asyncio.Task[None]] = field(default_factory=set)

    def create_connection(self) -> Connection:
        return Connection(self, asyncio.get_running_loop())

    def handle_request(self, connection: Connection, request: Request) -> None:
        path = request.path.partition("?")[0]
        if not self.admission.identify(connection, request.headers.get_all("X-Forwarded-For")):
            self._refuse(connection, HTTPStatus.TOO_MANY_REQUESTS, "too many connections from this address")
        elif path not in SESSIONS:
            responding = asyncio.create_task(self._respond(connection, request), name="page")
            self._responding.add(responding)
            responding.add_done_callback(self._responding.discard)
        elif self.stop.requested:
            self._refuse(connection, HTTPStatus.SERVICE_UNAVAILABLE, "the gateway is stopping: try again")
        elif not self.can_authenticate:
            self._refuse(connection, HTTPStatus.SERVICE_UNAVAILABLE, "the gateway is starting: try again")
        elif not self._is_origin_allowed(request):
            self._refuse(connection, HTTPStatus.FORBIDDEN, "this origin is not allowed")
        else:
            self._upgrade(connection, request, path)

    @property
    def can_authenticate(self) -> bool:
        """False until the keys for tokens and the revoked tokens have been read once."""
        return self.tokens.available and (self.access_watch is None or self.access_watch.has_read)

    def on_session(self, address: str) -> None:
        if self.access_watch is not None:
            self.access_watch.add(address)

    def refuse_people(self, addresses: Sequence[str]) -> None:
        """Close the sessions of people who do not exist or are inactive."""
        for address in addresses:
            for session in self.registry.get(address):
                session.close(CloseCode.BAD_TOKEN, "unknown or inactive user")

    def _upgrade(self, connection: Connection, request: Request, path: str) -> None:
        response = connection.handshake.accept(request)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            metrics.REFUSED.labels(response.status_code).inc()
            connection.respond(response)
            return
        offered = ",".join(request.headers.get_all("Sec-WebSocket-Protocol")).replace(" ", "").split(",")
        chosen = next((name for name in SUBPROTOCOLS[path] if name in offered), None)
        if chosen is not None:
            response.headers["Sec-WebSocket-Protocol"] = chosen
        now = asyncio.get_running_loop().time()
        session = SESSIONS[path](connection, self, now)
        receive_limit = TokenBucket(self.settings.receive_per_second, self.settings.receive_burst, now)
        connection.upgrade(response, session, receive_limit)

    def _is_origin_allowed(self, request: Request) -> bool:
        """Allow listed origins, the gateway's own pages, and requests without an Origin: browsers always send one."""
        origins = request.headers.get_all("Origin")
        if not origins:
            return True
        own = request.headers.get_all("Host") == [urlsplit(origins[0]).netloc]
        allowed = self.settings.ws_allowed_origins
        return len(origins) == 1 and (own or origins[0] in allowed or "*" in allowed)

    def _refuse(self, connection: Connection, status: HTTPStatus, reason: str) -> None:
        metrics.REFUSED.labels(int(status)).inc()
        connection.respond(plain(status, reason + "\n"))

    async def _respond(self, connection: Connection, request: Request) -> None:
        connection.respond(await self.pages.respond(request))

    def set_live(self, *, live: bool) -> None:
        """Tell every client when the frames stop and when they are back: clients then read the missed ones."""
        if live != self.live:
            self.live = live
            metrics.LIVE.set(live)
            status = self.status()
            for session in self.registry.all():
                session.deliver(status)

    def status(self) -> EncodedFrame:
        return EncodedFrame(b'{"type":"status","live":true}' if self.live else b'{"type":"status","live":false}')

    def tick(self, now: float) -> None:
        """Close the sessions of revoked tokens, and tick every connection that is due."""
        if self.revocations.refresh():
            for session in self.registry.all():
                if session.identity is not None and session.identity in self.revocations:
                    session.close(CloseCode.BAD_TOKEN, "revoked token")
        for connection in list(self.connections):
            if connection.next_tick_at <= now:
                connection.tick(now)
