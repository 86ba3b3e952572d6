"""A person at the other end of a connection: who they are, until when, and how it ends.

The same for JSON and for STOMP: nobody is delivered anything before their token was good, what arrives while a token
is being looked at waits its turn, and an expired token gets a grace in which it can be renewed.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import structlog

from tablebell.frames import address
from tablebell.tokens import BadToken, Identity
from ws_gateway import metrics
from ws_gateway.closecodes import CloseCode
from ws_gateway.packet import Packet

if TYPE_CHECKING:
    from ws_gateway.connection import Connection
    from ws_gateway.gateway import Gateway

log = structlog.get_logger(__name__)

MOST_WAITING = 16

MessageT = TypeVar("MessageT")


class Session(ABC, Generic[MessageT]):
    """`due` is when somebody has to look: the end of the time to authenticate, or of the token and its grace."""

    __slots__ = ("_address", "_connection", "_gateway", "_identity", "_verifying", "_waiting", "due")

    protocol: ClassVar[str]
    takes_binary: ClassVar[bool]

    def __init__(self, connection: "Connection", gateway: "Gateway", now: float) -> None:
        self._connection = connection
        self._gateway = gateway
        self._identity: Identity | None = None
        self._address = ""
        self._verifying: asyncio.Task[None] | None = None
        self._waiting: list[MessageT] | None = None
        self.due = now + gateway.settings.auth_seconds
        metrics.CONNECTIONS.labels(self.protocol).inc()

    @abstractmethod
    def deliver(self, packet: Packet) -> bool:
        """Write it to the socket; False when there is nobody to write it to."""

    @abstractmethod
    def receive(self, data: bytes) -> None:
        """A WebSocket message from the peer, to be handed to `take` in portions that make sense."""

    @abstractmethod
    def handle(self, message: MessageT) -> None:
        """What the peer says."""

    @abstractmethod
    def welcome(self, identity: Identity, /) -> None:
        """Tell the peer that its token is good."""

    def refuse(self, code: CloseCode, reason: str) -> None:
        self._connection.close(code, reason)

    @property
    def identity(self) -> Identity | None:
        return self._identity

    @property
    def labels(self) -> dict[str, str]:
        return {"protocol": self.protocol, "address": self._address}

    def take(self, message: MessageT) -> None:
        if self._verifying is None:
            self.handle(message)
            return
        self._waiting = [*(self._waiting or ()), message]
        if len(self._waiting) > MOST_WAITING:
            self._connection.fail(CloseCode.POLICY, "too many frames")

    def authenticate(self, token: str) -> None:
        self._verifying = asyncio.create_task(self._verify(token), name="verify")

    async def _verify(self, token: str) -> None:
        try:
            identity = await self._gateway.tokens.verify(token)
        except BadToken as bad:
            log.info("token_refused", reason=str(bad), **self.labels)
            self.refuse(CloseCode.BAD_TOKEN, "bad token")
        else:
            self._enter(identity)
        self._verifying = None
        waiting, self._waiting = self._waiting or (), None
        for message in waiting:
            if self._connection.is_open:
                self.take(message)

    def _enter(self, identity: Identity) -> None:
        where = address(identity.user_type, identity.user_id)
        if not self._connection.is_open:
            return
        if identity in self._gateway.revocations:
            self.refuse(CloseCode.BAD_TOKEN, "revoked token")
        elif self._identity is not None and where != self._address:
            self.refuse(CloseCode.BAD_TOKEN, "another person's token")
        elif self._identity is None and not self._gateway.registry.join(where, self):
            self.refuse(CloseCode.TOO_MANY, "too many connections")
        else:
            if self._identity is None:
                log.info("socket_opened", protocol=self.protocol, address=where)
            self._identity, self._address = identity, where
            left = identity.expires_at.timestamp() - time.time() + self._gateway.settings.expiry_grace_seconds
            self.due = asyncio.get_running_loop().time() + left
            self._connection.wake(self.due)
            self.welcome(identity)
            if not self._gateway.live:
                self.deliver(self._gateway.status())

    def tick(self, now: float) -> float:
        """Look at the clock; returns when to look again."""
        if now >= self.due:
            if self._identity is None:
                self.refuse(CloseCode.NO_AUTH, "no auth in time")
            else:
                self.refuse(CloseCode.BAD_TOKEN, "expired token")
        return self.due

    def leave(self) -> None:
        """From now on nothing is for this socket."""
        if self._identity is not None:
            self._gateway.registry.leave(self._address, self)

    def ended(self, code: int, reason: str) -> None:
        self.leave()
        if self._verifying is not None:
            self._verifying.cancel()
        metrics.CONNECTIONS.labels(self.protocol).dec()
        log.info("socket_closed", code=code, reason=reason, **self.labels)
