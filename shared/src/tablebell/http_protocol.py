"""uvicorn's HTTP protocol with bounds on what one peer can take: bytes, time and connections.

uvicorn bounds none of them with httptools: one connection could send headers without end, or stay open for hours with
a byte now and then. h11 bounds the headers only, and costs several times the processor time per request.
Here every state of a connection has a deadline. One task checks the deadlines of all connections once a second, so a
request costs a few assignments and no timer.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from prometheus_client import Counter
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tablebell.sources import Network, SourceCounter, TrustedProxies, source_of

# More than any body limit, because a client should be able to finish sending before it reads its 413.
REQUEST_BYTES = 1_310_720
RESPONSE_SECONDS = 60.0
CLOSE_SECONDS = 5.0
CHECK_SECONDS = 1.0
PIPELINED_REQUESTS = 16

DROPPED = Counter("http_connections_dropped_total", "Connections closed because of a limit.", ["limit"])


@dataclass(frozen=True, slots=True)
class HttpLimits:
    header_bytes: int = 16_384
    """Request line and headers."""
    header_seconds: float = 10.0
    """From the connection, or from the end of the keep-alive time, to the end of the headers."""
    body_seconds: float = 20.0
    keep_alive_seconds: int = 5
    connections: int = 2_000
    connections_per_source: int = 200
    """Connections of trusted proxies are not counted: the proxy limits its own clients."""
    trusted_proxies: tuple[Network, ...] = ()


class _LimitExceeded(Exception):
    """Raised in a callback of the parser, which then stops."""


class BoundedHttpProtocol(HttpToolsProtocol):
    def __init__(self, limits: HttpLimits, proxies: TrustedProxies, sources: SourceCounter, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._limits = limits
        self._proxies = proxies
        self._sources = sources
        self._source: str | None = None
        self._is_proxied = False
        self._is_reading_headers = True
        self._received = 0
        self._error = HTTPStatus.BAD_REQUEST
        """What the parser's next exception is answered with."""
        self.deadline = self.loop.time() + limits.header_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        peer = self.client[0] if self.client else ""
        self._is_proxied = self._proxies.trusts(peer)
        source = source_of(peer)
        if len(self.connections) > self._limits.connections:
            self._drop("connections")
        elif self._is_proxied:
            pass
        elif self._sources.add(source):
            self._source = source
        else:
            self._drop("connections_per_source")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._source is not None:
            self._sources.remove(self._source)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        # Checked afterwards, because one read can hold the headers and a body. An unfinished header is in the parser.
        if self.transport.is_closing():
            return
        if self._is_reading_headers and self._received > self._limits.header_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._received > REQUEST_BYTES:
            self._drop("request_bytes")

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._limits.header_bytes:
            self._error = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _LimitExceeded
        if len(self.pipeline) >= PIPELINED_REQUESTS:
            raise _LimitExceeded
        self._is_reading_headers = False
        self.deadline = self.loop.time() + self._limits.body_seconds
        if self._is_proxied and self.client is not None:
            forwarded = [value.decode("latin-1") for name, value in self.headers if name == b"x-forwarded-for"]
            self.scope["client"] = (self._proxies.client(self.client[0], forwarded), 0)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_reading_headers = True
        self._received = 0
        self._set_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_deadline()

    def _set_deadline(self) -> None:
        is_idle = self.cycle.response_complete
        seconds = self.timeout_keep_alive + self._limits.header_seconds if is_idle else RESPONSE_SECONDS
        self.deadline = self.loop.time() + seconds

    def close_overdue(self) -> None:
        """The deadline has passed: close, and abort if writing the rest takes too long as well."""
        if self.transport.is_closing():
            self._drop("close_seconds")
        else:
            DROPPED.labels("deadline").inc()
            self.deadline = self.loop.time() + CLOSE_SECONDS
            self.transport.close()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - as uvicorn declares it
        # uvicorn calls this for every exception of the parser and its callbacks.
        self._refuse(self._error)

    def _refuse(self, status: HTTPStatus) -> None:
        DROPPED.labels(str(status.value)).inc()
        self.transport.write(
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        self.transport.close()

    def _drop(self, limit: str) -> None:
        DROPPED.labels(limit).inc()
        self.transport.abort()


async def close_overdue_connections(connections: set[Any]) -> None:
    """Check the deadline of every connection, forever."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        now = loop.time()
        for connection in list(connections):
            if connection.deadline <= now:
                connection.close_overdue()
