"""Thousands of WebSocket clients in one process. They parse nothing, so the server is the bottleneck."""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from typing import cast

HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
SENT_AT = re.compile(rb'"sentAt\\?":(\d+)')
CONCURRENCY = 200


def masked(payload: bytes) -> bytes:
    """A client's text frame. Its mask is zero, which leaves the payload unchanged."""
    length = len(payload)
    size = bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2)
    return b"\x81" + size + b"\0\0\0\0" + payload


class ClientGroup:
    """Clients that count their received bytes together."""

    def __init__(self) -> None:
        self.received = 0
        self.latencies: list[float] | None = None
        self.clients: list[Client] = []
        self._expected = 0
        self._complete: asyncio.Event = asyncio.Event()

    def expect(self, byte_count: int) -> None:
        """Start to wait for this many bytes."""
        self._expected = self.received + byte_count
        self._complete.clear()

    async def wait_for_expected(self, within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            await self._complete.wait()

    def on_data(self, data: bytes) -> None:
        self.received += len(data)
        if self.received >= self._expected:
            self._complete.set()
        if self.latencies is not None:
            now = time.perf_counter_ns()
            self.latencies += [(now - int(sent)) / 1e6 for sent in SENT_AT.findall(data)]

    async def connect(self, port: int, path: str, first_messages: Sequence[bytes], reply: bytes) -> None:
        """Connect one client per first message, and return when each has received `reply`."""
        loop = asyncio.get_running_loop()
        handshake = HANDSHAKE.format(path=path, port=port).encode()
        for start in range(0, len(first_messages), CONCURRENCY):
            batch = first_messages[start : start + CONCURRENCY]
            connecting = [Client(self.on_data, handshake, message, reply) for message in batch]
            await asyncio.gather(*(loop.create_connection(client.get_self, "127.0.0.1", port) for client in connecting))
            async with asyncio.timeout(30):
                await asyncio.gather(*(client.ready.wait() for client in connecting))
            self.clients += connecting

    def abort(self) -> None:
        for client in self.clients:
            client.transport.abort()
        self.clients.clear()


class Client(asyncio.Protocol):
    def __init__(self, on_data: Callable[[bytes], None], handshake: bytes, first_message: bytes, reply: bytes) -> None:
        self._on_data = on_data
        self._handshake = handshake
        self._first_message = first_message
        self._reply = reply
        self._buffer = b""
        self.ready = asyncio.Event()
        self.transport: asyncio.Transport

    def get_self(self) -> "Client":
        """The protocol factory of this client's only connection."""
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass
        self.transport.write(self._handshake)

    def data_received(self, data: bytes) -> None:
        if self.ready.is_set():
            self._on_data(data)
            return
        upgraded = b"\r\n\r\n" in self._buffer
        self._buffer += data
        if not upgraded and b"\r\n\r\n" in self._buffer and self._first_message:
            self.transport.write(self._first_message)
        if self._reply in self._buffer:
            self.ready.set()
            self._buffer = b""
