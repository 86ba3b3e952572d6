"""One WebSocket connection: bytes in, messages out, and never more owed to a slow peer than its buffer allows.

It stands on the Sans-I/O half of `websockets` and a transport: no task, no queue and no timer of its own, which is
what keeps an idle connection small. `tick` is called when `due` has come. What arrives is worked off in small slices,
others taking their turns in between, so that a peer who sends a hundred thousand frames holds up nobody but itself.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, cast

import structlog
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol

from tablebell.token_bucket import TokenBucket
from ws_gateway import metrics
from ws_gateway.closecodes import CloseCode

if TYPE_CHECKING:
    from ws_gateway.gateway import AnySession, Gateway

log = structlog.get_logger(__name__)

SLICE_BYTES = 2_048

# Our own lines tell what the library's would, once and with the ids.
_silent = logging.getLogger("websockets.server")
_silent.setLevel(logging.CRITICAL)


class Connection(asyncio.Protocol):
    __slots__ = (
        "_backlog",
        "_fragments",
        "_gateway",
        "_heard",
        "_loop",
        "_over",
        "_owed",
        "_pinged_at",
        "_receive_limit",
        "_session",
        "_suspect",
        "_transport",
        "_ws",
        "due",
        "is_open",
    )

    def __init__(self, gateway: "Gateway", loop: asyncio.AbstractEventLoop) -> None:
        self._gateway = gateway
        self._loop = loop
        self._ws = ServerProtocol(max_size=gateway.settings.max_message_bytes, logger=_silent)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)  # until connection_made
        self._session: AnySession | None = None
        self._receive_limit: TokenBucket | None = None
        self._fragments: list[bytes] | None = None
        self._backlog: bytearray | None = None
        self._heard = loop.time()
        self._pinged_at: float | None = None
        self._suspect = False
        self._over = False
        self._owed: list[bytes] | None = None
        self.is_open = False
        """Between the handshake and the first goodbye, whoever says it."""
        self.due = self._heard + gateway.settings.auth_seconds

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._gateway.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        self._pinged_at = None
        if self._backlog is not None:
            self._backlog += data
        elif len(data) <= SLICE_BYTES:
            self._take(data)
        else:
            self._backlog = bytearray(data)
            self._transport.pause_reading()
            self._work_off()

    def eof_received(self) -> bool:
        return False  # the transport then closes, when it has written what it owes

    def connection_lost(self, _: Exception | None) -> None:
        self._over = True
        self.is_open = False
        self._backlog = self._owed = None
        self._gateway.connections.discard(self)
        if self._session is not None:
            closing = self._ws.close_sent
            code = int(closing.code if closing is not None else CloseCode.LOST)
            self._session.ended(code, closing.reason if closing is not None else "")
            metrics.CLOSES.labels(code).inc()

    # What is done with what arrives

    def _work_off(self) -> None:
        if self._backlog is None:
            return
        if self._is_closing:
            self._backlog.clear()  # nobody is interested any more
        else:
            piece = bytes(self._backlog[:SLICE_BYTES])
            del self._backlog[:SLICE_BYTES]
            self._take(piece)
        if self._backlog:
            self._loop.call_soon(self._work_off)
        else:
            self._backlog = None
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _take(self, data: bytes) -> None:
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Request):
                self._gateway.admit(self, event)
            elif isinstance(event, Frame) and self._session is not None and self.is_open:
                self._take_frame(event, self._session)
        if self.is_open and self._ws.state is not State.OPEN:
            self._end()  # the peer closed, or broke the protocol
        self._flush()

    def _take_frame(self, frame: Frame, session: "AnySession") -> None:
        if self._receive_limit is None or self._receive_limit.take(self._heard) > 0:
            self.fail(CloseCode.POLICY, "too many frames")
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._assemble(frame, session)

    def _assemble(self, frame: Frame, session: "AnySession") -> None:
        data = bytes(frame.data)
        if frame.opcode is Opcode.BINARY and not session.takes_binary:
            self.fail(CloseCode.UNSUPPORTED, "text only")
        elif self._fragments is None and frame.fin:
            session.receive(data)
        elif frame.fin:
            message, self._fragments = b"".join([*(self._fragments or ()), data]), None
            session.receive(message)
        else:
            self._fragments = [*(self._fragments or ()), data]

    # What the gateway and the session do with it

    def upgrade(self, response: Response, session: "AnySession", receive_limit: TokenBucket) -> None:
        self._session = session
        self._receive_limit = receive_limit
        self._ws.send_response(response)
        self._flush()
        self.is_open = True

    def respond(self, response: Response) -> None:
        """Answer plain HTTP, once."""
        if not self._over and self._ws.state is State.CONNECTING:
            self.due = self._loop.time() + self._gateway.settings.close_seconds
            self._ws.send_response(response)
            self._flush()

    @property
    def handshake(self) -> ServerProtocol:
        return self._ws

    @property
    def _is_closing(self) -> bool:
        return self._over or self._ws.eof_sent or self._transport.is_closing()

    def send(self, encoded: bytes) -> bool:
        """Owe an encoded frame, which the outlet writes; False when the connection is not open any more."""
        if not self.is_open:
            return False
        if self._owed is None:
            self._owed = [encoded]
            self._gateway.outlet.add(self)
        else:
            self._owed.append(encoded)
        return True

    def pay(self) -> None:
        owed, self._owed = self._owed, None
        if owed is None or self._over:
            return
        self._transport.write(owed[0] if len(owed) == 1 else b"".join(owed))
        if self._transport.get_write_buffer_size() > self._gateway.settings.send_buffer_bytes and not self._suspect:
            # What the kernel did not take at once it may take in the next turn: only what stays after that is too much.
            self._suspect = True
            self._loop.call_soon(self._judge)

    def _judge(self) -> None:
        self._suspect = False
        if self.is_open and self._transport.get_write_buffer_size() > self._gateway.settings.send_buffer_bytes:
            metrics.DROPPED.labels("too_slow").inc()
            self.close(CloseCode.TOO_SLOW, "too slow")

    def close(self, code: int, reason: str) -> None:
        """Say goodbye and wait, for a while, until the peer does."""
        if self.is_open:
            self._ws.send_close(code, reason)
            self._end()

    def fail(self, code: int, reason: str) -> None:
        """Say goodbye to a peer whose further bytes are not even looked at."""
        if self.is_open:
            self._ws.fail(code, reason)
            self._end()

    def abort(self) -> None:
        self._transport.abort()

    def _end(self) -> None:
        """From now on nothing is for this socket, and the peer has a while to answer."""
        self.is_open = False
        self.due = self._loop.time() + self._gateway.settings.close_seconds
        if self._session is not None:
            self._session.leave()
        self._flush()

    def wake(self, at: float) -> None:
        """Somebody has to look no later than then."""
        self.due = min(self.due, at)

    def tick(self, now: float) -> None:
        if not self.is_open or self._session is None:
            self.abort()  # it had its time: to finish the handshake, to read the answer, or to answer the close
            return
        patience = self._gateway.settings.ping_seconds
        if self._pinged_at is not None and now - self._pinged_at >= patience:
            log.info("peer_found_dead", **self._session.labels)
            self.abort()
            return
        if self._pinged_at is None and now - self._heard >= patience:
            self._pinged_at = now
            self._ws.send_ping(b"")
            self._flush()
        session_due = self._session.tick(now)
        if self.is_open:
            self.due = min(session_due, (self._pinged_at or self._heard) + patience)

    def _flush(self) -> None:
        self.pay()  # first: a goodbye comes after what was said before it
        for data in self._ws.data_to_send():
            if data is not SEND_EOF:
                self._transport.write(data)
            elif self._transport.can_write_eof() and not self._transport.is_closing():
                self._transport.write_eof()
