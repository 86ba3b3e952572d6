"""One WebSocket connection. The invariant: it never buffers more than `send_buffer_bytes` for a slow peer.

It uses the Sans-I/O part of `websockets` and a transport. It has no task, queue or timer of its own, which keeps an
idle connection small: the connection timer calls `tick` when `next_tick_at` has passed. Received bytes are processed
in small slices with other work in between, so a peer that sends 100,000 frames does not delay the others.
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
from ws_gateway.close_codes import CloseCode

if TYPE_CHECKING:
    from ws_gateway.gateway import AnySession, Gateway

log = structlog.get_logger(__name__)

SLICE_BYTES = 2_048

# The gateway logs the same events itself, once and with ids.
_silent = logging.getLogger("websockets.server")
_silent.setLevel(logging.CRITICAL)


class Connection(asyncio.Protocol):
    __slots__ = (
        "_fragments",
        "_gateway",
        "_handshake_bytes",
        "_is_lost",
        "_loop",
        "_pending_frames",
        "_pinged_at",
        "_receive_buffer",
        "_receive_limit",
        "_received_at",
        "_session",
        "_slow_check_scheduled",
        "_transport",
        "_ws",
        "is_open",
        "next_tick_at",
    )

    def __init__(self, gateway: "Gateway", loop: asyncio.AbstractEventLoop) -> None:
        self._gateway = gateway
        self._loop = loop
        self._ws = ServerProtocol(max_size=gateway.settings.max_message_bytes, logger=_silent)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)  # until connection_made
        self._session: AnySession | None = None
        self._receive_limit: TokenBucket | None = None
        self._handshake_bytes = 0
        self._fragments: list[bytes] | None = None
        self._receive_buffer: bytearray | None = None
        self._received_at = loop.time()
        self._pinged_at: float | None = None
        self._slow_check_scheduled = False
        self._is_lost = False
        self._pending_frames: list[bytes] | None = None
        self.is_open = False
        """From the handshake until either side starts to close."""
        self.next_tick_at = self._received_at + gateway.settings.auth_seconds

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._gateway.connections.add(self)
        if not self._gateway.admission.open(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        self._pinged_at = None
        if self._receive_buffer is not None:
            self._receive_buffer += data
        elif len(data) <= SLICE_BYTES:
            self._process(data)
        else:
            self._receive_buffer = bytearray(data)
            self._transport.pause_reading()
            self._process_slice()

    def eof_received(self) -> bool:
        return False  # the transport closes after it has written its buffer

    def connection_lost(self, _: Exception | None) -> None:
        self._is_lost = True
        self.is_open = False
        self._receive_buffer = self._pending_frames = None
        self._gateway.connections.discard(self)
        if self._session is not None:
            sent = self._ws.close_sent
            code = int(sent.code if sent is not None else CloseCode.LOST)
            self._session.on_closed(code, sent.reason if sent is not None else "")
            metrics.CLOSES.labels(code).inc()
        self._gateway.admission.release(self)

    # Received data

    def _process_slice(self) -> None:
        if self._receive_buffer is None:
            return
        if self._is_closing:
            self._receive_buffer.clear()
        else:
            data = bytes(self._receive_buffer[:SLICE_BYTES])
            del self._receive_buffer[:SLICE_BYTES]
            self._process(data)
        if self._receive_buffer:
            self._loop.call_soon(self._process_slice)
        else:
            self._receive_buffer = None
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _process(self, data: bytes) -> None:
        if self._session is None:
            self._handshake_bytes += len(data)
            if self._handshake_bytes > self._gateway.settings.header_limit_bytes:
                metrics.REFUSED.labels(431).inc()
                self.abort()
                return
        self._ws.receive_data(data)
        for event in self._ws.events_received():
            if isinstance(event, Request):
                self._gateway.handle_request(self, event)
            elif isinstance(event, Frame) and self._session is not None and self.is_open:
                self._process_frame(event, self._session)
        if self.is_open and self._ws.state is not State.OPEN:
            self._start_closing()  # the peer closed or violated the protocol
        self._flush_all()

    def _process_frame(self, frame: Frame, session: "AnySession") -> None:
        if self._receive_limit is None or self._receive_limit.take(self._received_at) > 0:
            self.fail(CloseCode.POLICY, "too many frames")
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._assemble_message(frame, session)

    def _assemble_message(self, frame: Frame, session: "AnySession") -> None:
        data = bytes(frame.data)
        if frame.opcode is Opcode.BINARY and not session.accepts_binary:
            self.fail(CloseCode.UNSUPPORTED, "text only")
        elif self._fragments is None and frame.fin:
            session.receive(data)
        elif frame.fin:
            message, self._fragments = b"".join([*(self._fragments or ()), data]), None
            session.receive(message)
        else:
            self._fragments = [*(self._fragments or ()), data]

    # Called by the gateway and the session

    def upgrade(self, response: Response, session: "AnySession", receive_limit: TokenBucket) -> None:
        self._session = session
        self._receive_limit = receive_limit
        self._ws.send_response(response)
        self._flush_all()
        self.is_open = True

    def respond(self, response: Response) -> None:
        """Send a plain HTTP response. A connection carries one."""
        if not self._is_lost and self._ws.state is State.CONNECTING:
            self.next_tick_at = self._loop.time() + self._gateway.settings.close_seconds
            self._ws.send_response(response)
            self._flush_all()

    @property
    def peer(self) -> str:
        """The address of the other end: a client or a proxy."""
        name = self._transport.get_extra_info("peername")
        return str(name[0]) if name else ""

    @property
    def handshake(self) -> ServerProtocol:
        return self._ws

    @property
    def _is_closing(self) -> bool:
        return self._is_lost or self._ws.eof_sent or self._transport.is_closing()

    def send(self, encoded: bytes) -> bool:
        """Add an encoded frame and schedule a flush. Return False when the connection is not open."""
        if not self.is_open:
            return False
        if self._pending_frames is None:
            self._pending_frames = [encoded]
            self._gateway.write_coalescer.add(self)
        else:
            self._pending_frames.append(encoded)
        return True

    def flush(self) -> None:
        """Write the pending frames."""
        pending, self._pending_frames = self._pending_frames, None
        if pending is None or self._is_lost:
            return
        self._transport.write(pending[0] if len(pending) == 1 else b"".join(pending))
        over_limit = self._transport.get_write_buffer_size() > self._gateway.settings.send_buffer_bytes
        if over_limit and not self._slow_check_scheduled:
            # The kernel may take the rest in the next loop iteration. Only a buffer that stays full is too slow.
            self._slow_check_scheduled = True
            self._loop.call_soon(self._close_if_slow)

    def _close_if_slow(self) -> None:
        self._slow_check_scheduled = False
        if self.is_open and self._transport.get_write_buffer_size() > self._gateway.settings.send_buffer_bytes:
            metrics.DROPPED.labels("too_slow").inc()
            self.close(CloseCode.TOO_SLOW, "too slow")

    def close(self, code: int, reason: str) -> None:
        """Send a close frame and wait up to `close_seconds` for the peer's."""
        if self.is_open:
            self._ws.send_close(code, reason)
            self._start_closing()

    def fail(self, code: int, reason: str) -> None:
        """Send a close frame and ignore everything that the peer still sends."""
        if self.is_open:
            self._ws.fail(code, reason)
            self._start_closing()

    def abort(self) -> None:
        self._transport.abort()

    def _start_closing(self) -> None:
        """Stop delivery. The peer has `close_seconds` to answer."""
        self.is_open = False
        self.next_tick_at = self._loop.time() + self._gateway.settings.close_seconds
        if self._session is not None:
            self._session.unregister()
        self._flush_all()

    def schedule_tick(self, at: float) -> None:
        """Call `tick` at this time or earlier."""
        self.next_tick_at = min(self.next_tick_at, at)

    def tick(self, now: float) -> None:
        """Abort an overdue or dead connection, ping a silent peer, and run the session's timers."""
        if not self.is_open or self._session is None:
            self.abort()  # the handshake, the HTTP response or the close took too long
            return
        ping_seconds = self._gateway.settings.ping_seconds
        if self._pinged_at is not None and now - self._pinged_at >= ping_seconds:
            log.info("peer_dead", **self._session.log_fields)
            self.abort()
            return
        if self._pinged_at is None and now - self._received_at >= ping_seconds:
            self._pinged_at = now
            self._ws.send_ping(b"")
            self._flush_all()
        session_tick_at = self._session.tick(now)
        if self.is_open:
            self.next_tick_at = min(session_tick_at, (self._pinged_at or self._received_at) + ping_seconds)

    def _flush_all(self) -> None:
        """Write the pending frames, then the protocol's own output: a close frame must come last."""
        self.flush()
        for data in self._ws.data_to_send():
            if data is not SEND_EOF:
                self._transport.write(data)
            elif self._transport.can_write_eof() and not self._transport.is_closing():
                self._transport.write_eof()
