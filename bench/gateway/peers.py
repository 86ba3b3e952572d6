"""Thousands of WebSocket peers in one process: no library, no parsing, so that what is measured is the server."""

import asyncio
import re
import time
from collections.abc import Sequence
from functools import partial
from typing import cast

HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
SENT_AT = re.compile(rb'"sentAt\\?":(\d+)')
AT_ONCE = 200


def masked(payload: bytes) -> bytes:
    """A client's text frame; with a mask of zeros the payload stays as it is."""
    length = len(payload)
    size = bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2)
    return b"\x81" + size + b"\0\0\0\0" + payload


class Crowd:
    """What all peers together have received."""

    def __init__(self) -> None:
        self.received = 0
        self.latencies: list[float] | None = None
        self.peers: list[Peer] = []
        self._wanted = 0
        self._enough: asyncio.Event = asyncio.Event()

    def expect(self, more: int) -> None:
        """Bytes, from now on."""
        self._wanted = self.received + more
        self._enough.clear()

    async def until_received(self, within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            await self._enough.wait()

    def took(self, data: bytes) -> None:
        self.received += len(data)
        if self.received >= self._wanted:
            self._enough.set()
        if self.latencies is not None:
            now = time.perf_counter_ns()
            self.latencies += [(now - int(sent)) / 1e6 for sent in SENT_AT.findall(data)]

    async def join(self, port: int, path: str, hellos: Sequence[bytes], answer: bytes) -> None:
        """Connect one peer per hello, which it says after the handshake; returns when all have heard `answer`."""
        loop = asyncio.get_running_loop()
        handshake = HANDSHAKE.format(path=path, port=port).encode()
        for start in range(0, len(hellos), AT_ONCE):
            joining = [Peer(self, handshake, hello, answer) for hello in hellos[start : start + AT_ONCE]]
            await asyncio.gather(
                *(loop.create_connection(partial(_itself, peer), "127.0.0.1", port) for peer in joining)
            )
            async with asyncio.timeout(30):
                await asyncio.gather(*(peer.ready.wait() for peer in joining))
            self.peers += joining

    def leave(self) -> None:
        for peer in self.peers:
            peer.transport.abort()
        self.peers.clear()


class Peer(asyncio.Protocol):
    def __init__(self, crowd: Crowd, handshake: bytes, hello: bytes, answer: bytes) -> None:
        self._crowd = crowd
        self._handshake = handshake
        self._hello = hello
        self._answer = answer
        self._heard = b""
        self.ready = asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self.transport.write(self._handshake)

    def data_received(self, data: bytes) -> None:
        if self.ready.is_set():
            self._crowd.took(data)
            return
        upgraded = b"\r\n\r\n" in self._heard
        self._heard += data
        if not upgraded and b"\r\n\r\n" in self._heard and self._hello:
            self.transport.write(self._hello)
        if self._answer in self._heard:
            self.ready.set()
            self._heard = b""


def _itself(peer: Peer) -> Peer:
    return peer
