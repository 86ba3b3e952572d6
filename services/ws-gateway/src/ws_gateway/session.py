"""The user of a connection: authentication, token expiry and the end of the session, for JSON and STOMP alike.

The invariants: nothing is delivered before the token is verified; messages that arrive during the verification are
handled after it, in order; an expired token can be renewed within the grace period.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import structlog

from tablebell.frames import address
from tablebell.tokens import BadToken, Identity
from ws_gateway import metrics
from ws_gateway.close_codes import CloseCode
from ws_gateway.encoded_frame import EncodedFrame

if TYPE_CHECKING:
    from ws_gateway.connection import Connection
    from ws_gateway.gateway import Gateway

log = structlog.get_logger(__name__)

MAX_QUEUED = 16

MessageT = TypeVar("MessageT")


class Session(ABC, Generic[MessageT]):
    """`_deadline` is the end of the time to authenticate, then the end of the token's grace period."""

    __slots__ = ("_address", "_connection", "_deadline", "_gateway", "_identity", "_queued", "_verifying")

    protocol: ClassVar[str]
    accepts_binary: ClassVar[bool]

    def __init__(self, connection: "Connection", gateway: "Gateway", now: float) -> None:
        self._connection = connection
        self._gateway = gateway
        self._identity: Identity | None = None
        self._address = ""
        self._verifying: asyncio.Task[None] | None = None
        self._queued: list[MessageT] | None = None
        self._deadline = now + gateway.settings.auth_seconds
        metrics.CONNECTIONS.labels(self.protocol).inc()

    @abstractmethod
    def deliver(self, frame: EncodedFrame) -> bool:
        """Send a frame to the peer. Return False when it was not sent."""

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """Split a WebSocket message into protocol messages and pass each to `handle_or_queue`."""

    @abstractmethod
    def handle(self, message: MessageT) -> None:
        """Handle one protocol message."""

    @abstractmethod
    def on_authenticated(self, identity: Identity, /) -> None:
        """Confirm the token to the peer."""

    def close(self, code: CloseCode, reason: str) -> None:
        self._connection.close(code, reason)

    @property
    def identity(self) -> Identity | None:
        return self._identity

    @property
    def log_fields(self) -> dict[str, str]:
        source = self._gateway.admission.source(self._connection)
        return {"protocol": self.protocol, "address": self._address, "source": source}

    def handle_or_queue(self, message: MessageT) -> None:
        """Handle a message, or queue it while a token is being verified."""
        if self._verifying is None:
            self.handle(message)
            return
        self._queued = [*(self._queued or ()), message]
        if len(self._queued) > MAX_QUEUED:
            self._connection.fail(CloseCode.POLICY, "too many frames")

    def authenticate(self, token: str) -> None:
        self._verifying = asyncio.create_task(self._verify(token), name="verify")

    async def _verify(self, token: str) -> None:
        try:
            identity = await self._gateway.tokens.verify(token)
        except BadToken as bad:
            log.info("token_rejected", reason=str(bad), **self.log_fields)
            self.close(CloseCode.BAD_TOKEN, "bad token")
        else:
            self._set_identity(identity)
        self._verifying = None
        queued, self._queued = self._queued or (), None
        for message in queued:
            if self._connection.is_open:
                self.handle_or_queue(message)

    def _set_identity(self, identity: Identity) -> None:
        new_address = address(identity.user_type, identity.user_id)
        if not self._connection.is_open:
            return
        if identity in self._gateway.revocations:
            self.close(CloseCode.BAD_TOKEN, "revoked token")
        elif self._identity is not None and new_address != self._address:
            self.close(CloseCode.BAD_TOKEN, "another user's token")
        elif self._identity is None and not self._register(new_address):
            self.close(CloseCode.TOO_MANY, "too many connections")
        else:
            is_first = self._identity is None
            self._identity, self._address = identity, new_address
            if is_first:
                log.info("session_opened", **self.log_fields)
                self._gateway.on_session(new_address)
            left = identity.expires_at.timestamp() - time.time() + self._gateway.settings.expiry_grace_seconds
            self._deadline = asyncio.get_running_loop().time() + left
            self._connection.schedule_tick(self._deadline)
            self.on_authenticated(identity)
            if not self._gateway.live:
                self.deliver(self._gateway.status())

    def _register(self, new_address: str) -> bool:
        return self._gateway.admission.authenticate(self._connection) and self._gateway.registry.add(new_address, self)

    def tick(self, now: float) -> float:
        """Close the session when its deadline has passed. Return the time of the next tick."""
        if now >= self._deadline:
            if self._identity is None:
                self.close(CloseCode.NO_AUTH, "no auth in time")
            else:
                self.close(CloseCode.BAD_TOKEN, "expired token")
        return self._deadline

    def unregister(self) -> None:
        """Stop the delivery of frames. Idempotent."""
        if self._identity is not None:
            self._gateway.registry.remove(self._address, self)

    def on_closed(self, code: int, reason: str) -> None:
        self.unregister()
        if self._verifying is not None:
            self._verifying.cancel()
        metrics.CONNECTIONS.labels(self.protocol).dec()
        log.info("session_closed", code=code, reason=reason, **self.log_fields)
