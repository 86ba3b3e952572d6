"""`/stomp`: STOMP 1.2 (1.1, 1.0) over WebSocket, as @stomp/stompjs uses it.

The only destination is the user's own: /user/queue/notifications. Clients cannot send to it. As STOMP requires, every
error is an ERROR frame, followed by a close.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tablebell.tokens import Identity
from ws_gateway import stomp
from ws_gateway.close_codes import CloseCode
from ws_gateway.encoded_frame import DESTINATION, EncodedFrame, text_frame
from ws_gateway.session import Session

if TYPE_CHECKING:
    from ws_gateway.connection import Connection
    from ws_gateway.gateway import Gateway

HEART_BEAT = text_frame(b"\n")
MAX_SUBSCRIPTIONS = 8


class StompSession(Session[stomp.StompFrame]):
    __slots__ = ("_beat_seconds", "_next_beat_at", "_parser", "_requested_heart_beat", "_subscriptions", "_version")

    protocol = "stomp"
    accepts_binary = True

    def __init__(self, connection: "Connection", gateway: "Gateway", now: float) -> None:
        super().__init__(connection, gateway, now)
        self._parser = stomp.Parser(gateway.settings.max_message_bytes)
        self._version = "1.2"
        self._requested_heart_beat = "0,0"
        self._beat_seconds = 0.0
        self._next_beat_at = float("inf")
        self._subscriptions: dict[str, bool] = {}

    def deliver(self, frame: EncodedFrame) -> bool:
        sent = False
        for subscription, needs_ack in self._subscriptions.items():
            sent |= self._connection.send(frame.as_stomp(subscription, self._version, needs_ack=needs_ack))
        return sent

    def receive(self, data: bytes) -> None:
        try:
            frames = self._parser.feed(data)
        except stomp.BadFrame as bad:
            self._fail(str(bad))
            return
        for frame in frames:
            if self._connection.is_open:
                self.handle_or_queue(frame)

    def handle(self, frame: stomp.StompFrame) -> None:
        if self._identity is None:
            if frame.command not in ("CONNECT", "STOMP"):
                self._fail("the first frame is not CONNECT")
            else:
                self._connect(frame.headers)
            return
        match frame.command:
            case "SUBSCRIBE":
                self._subscribe(frame.headers)
            case "UNSUBSCRIBE":
                self._subscriptions.pop(frame.headers.get("id", ""), None)
            case "ACK" | "NACK" | "DISCONNECT":
                pass  # frames are not stored, so there is nothing to acknowledge
            case _:
                self._fail(f"{frame.command} is not supported")
        if "receipt" in frame.headers:
            self._send("RECEIPT", {"receipt-id": frame.headers["receipt"]})
        if frame.command == "DISCONNECT":
            self._connection.close(CloseCode.NORMAL, "")

    def _connect(self, headers: Mapping[str, str]) -> None:
        offered = headers.get("accept-version", "1.0").split(",")
        version = next((version for version in stomp.VERSIONS if version in offered), None)
        if version is None:
            self._fail("supported versions are 1.2, 1.1 and 1.0")
            return
        self._version = version
        self._parser.escaped = version != "1.0"
        self._requested_heart_beat = headers.get("heart-beat", "0,0")
        scheme, _, token = _authorization(headers).partition(" ")
        if scheme.lower() != "bearer" or not token:
            self.close(CloseCode.BAD_TOKEN, "no bearer token")
        else:
            self.authenticate(token.strip())

    def on_authenticated(self, _: Identity) -> None:
        offered = round(self._gateway.settings.stomp_heart_beat_seconds * 1000)
        try:
            # Only the direction to the peer is used: WebSocket pings detect a dead peer.
            requested = int(self._requested_heart_beat.partition(",")[2])
        except ValueError:
            requested = 0
        if requested > 0:
            self._beat_seconds = max(offered, requested) / 1000
            self._next_beat_at = asyncio.get_running_loop().time() + self._beat_seconds
            self._connection.schedule_tick(self._next_beat_at)
        headers = {"version": self._version, "heart-beat": f"{offered},{offered}", "user-name": self._address}
        self._send("CONNECTED", headers)

    def _subscribe(self, headers: Mapping[str, str]) -> None:
        # The id is optional in 1.0. The only destination then serves as the id.
        subscription = headers.get("id", DESTINATION if self._version == "1.0" else "")
        if headers.get("destination") != DESTINATION:
            self._fail(f"the only destination is {DESTINATION}")
        elif not subscription:
            self._fail("a subscription needs an id")
        elif len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            self._fail("too many subscriptions")
        else:
            self._subscriptions[subscription] = headers.get("ack", "auto") != "auto"
            if not self._gateway.live:
                self.deliver(self._gateway.status())

    def tick(self, now: float) -> float:
        if now >= self._next_beat_at:
            self._connection.send(HEART_BEAT)
            self._next_beat_at = now + self._beat_seconds
        return min(super().tick(now), self._next_beat_at)

    def close(self, code: CloseCode, reason: str) -> None:
        self._send("ERROR", {"message": reason})
        self._connection.close(code, reason)

    def _fail(self, reason: str) -> None:
        self._send("ERROR", {"message": reason})
        self._connection.fail(CloseCode.PROTOCOL_ERROR, reason[:100])

    def _send(self, command: str, headers: Mapping[str, str]) -> None:
        self._connection.send(text_frame(stomp.encode(command, headers, version=self._version)))


def _authorization(headers: Mapping[str, str]) -> str:
    return next((value for name, value in headers.items() if name.lower() == "authorization"), "")
