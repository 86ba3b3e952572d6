"""What all connections of this process share, and whom it lets in."""

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from websockets.http11 import Request

from tablebell.lifecycle import Stop
from tablebell.token_bucket import TokenBucket
from tablebell.tokens import TokenVerifier
from ws_gateway import metrics
from ws_gateway.closecodes import CloseCode
from ws_gateway.connection import Connection
from ws_gateway.json_session import JsonSession
from ws_gateway.outlet import Outlet
from ws_gateway.packet import Packet
from ws_gateway.pages import Pages, plain
from ws_gateway.registry import Registry
from ws_gateway.revocations import Revocations
from ws_gateway.session import Session
from ws_gateway.settings import Settings
from ws_gateway.stomp_session import StompSession

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
    connections: set[Connection] = field(default_factory=set)
    outlet: Outlet = field(default_factory=Outlet)
    live: bool = False
    """Whether frames come from RabbitMQ."""
    _answering: set[asyncio.Task[None]] = field(default_factory=set)

    def connect(self) -> Connection:
        return Connection(self, asyncio.get_running_loop())

    def admit(self, connection: Connection, request: Request) -> None:
        path = request.path.partition("?")[0]
        if path not in SESSIONS:
            answering = asyncio.create_task(self._answer(connection, request), name="page")
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)
        elif self.stop.requested:
            self._turn_away(connection, HTTPStatus.SERVICE_UNAVAILABLE, "about to stop: try again")
        elif not self._is_welcome(request):
            self._turn_away(connection, HTTPStatus.FORBIDDEN, "not from this origin")
        else:
            self._upgrade(connection, request, path)

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
        if len(self.connections) > self.settings.max_connections:
            session.refuse(CloseCode.TOO_MANY, "too many connections")

    def _is_welcome(self, request: Request) -> bool:
        """A page of a known origin, one of ours, or no page at all: browsers always send an Origin, others rarely."""
        origins = request.headers.get_all("Origin")
        if not origins:
            return True
        ours = request.headers.get_all("Host") == [urlsplit(origins[0]).netloc]
        allowed = self.settings.ws_allowed_origins
        return len(origins) == 1 and (ours or origins[0] in allowed or "*" in allowed)

    def _turn_away(self, connection: Connection, status: HTTPStatus, reason: str) -> None:
        metrics.REFUSED.labels(int(status)).inc()
        connection.respond(plain(status, reason + "\n"))

    async def _answer(self, connection: Connection, request: Request) -> None:
        connection.respond(await self.pages.answer(request))

    def set_live(self, *, live: bool) -> None:
        """Tell everyone when the feed goes and when it is back: then they catch up on what they missed."""
        if live != self.live:
            self.live = live
            metrics.LIVE.set(live)
            status = self.status()
            for session in self.registry.everyone():
                session.deliver(status)

    def status(self) -> Packet:
        return Packet(b'{"type":"status","live":true}' if self.live else b'{"type":"status","live":false}')

    def sweep(self, now: float) -> None:
        """Look after every connection whose time has come."""
        if self.revocations.refresh():
            for session in self.registry.everyone():
                if session.identity is not None and session.identity in self.revocations:
                    session.refuse(CloseCode.BAD_TOKEN, "revoked token")
        for connection in list(self.connections):
            if connection.due <= now:
                connection.tick(now)
