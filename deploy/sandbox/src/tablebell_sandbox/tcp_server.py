"""A TCP server on one port that can simulate an outage.

The port stays bound for the lifetime of the sandbox. During an outage the bound socket does not listen: the kernel
refuses connections, and no other program can take the port.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Collection
from typing import Any, Protocol

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """A protocol with an open transport, of asyncio or of uvloop: the two share no base class."""

    transport: Any


class PortUnavailable(Exception):
    """The message names the port, its setting and the reason."""


class TcpServer:
    def __init__(
        self,
        setting: str,
        host: str,
        port: int,
        *,
        factory: Callable[[], asyncio.BaseProtocol],
        connections: Collection[Connection],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._setting = setting
        self._host = host
        self.port = port
        self._factory = factory
        self._connections = connections
        self._tls = tls
        self._bound_socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._reopening: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        try:
            self._bound_socket = self._bind()
            self.port = self._bound_socket.getsockname()[1]
            await self._listen(self._bound_socket)
        except OSError as error:
            reason = error.strerror or str(error)
            raise PortUnavailable(f"cannot listen on {self._host}:{self.port} ({self._setting}): {reason}") from error

    async def refuse(self, for_seconds: float | None = None) -> None:
        """Closes the port and all open connections."""
        async with self._lock:
            self._cancel_reopening()
            if self._server is not None:
                self._server.close()
                self._server = None
                await self._abort_connections()
                self._bound_socket = self._bind()
                logger.info("port_refuses setting=%s port=%d for_seconds=%s", self._setting, self.port, for_seconds)
            if for_seconds is not None:
                self._reopening = asyncio.create_task(self._reopen_after(for_seconds), name=f"reopen-{self.port}")

    async def accept(self) -> None:
        async with self._lock:
            self._cancel_reopening()
            await self._reopen()

    async def close(self) -> None:
        async with self._lock:
            self._cancel_reopening()
            if self._server is not None:
                self._server.close()
            if self._bound_socket is not None:
                self._bound_socket.close()
            await self._abort_connections()

    def _bind(self) -> socket.socket:
        family, kind, protocol, _, address = socket.getaddrinfo(
            self._host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
        return bound

    async def _listen(self, bound: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._factory, sock=bound, ssl=self._tls, backlog=2048)
        self._bound_socket = None

    async def _abort_connections(self) -> None:
        for connection in list(self._connections):
            if connection.transport is not None:
                # asyncio of Python 3.11.2 raises it for a TLS transport that has been closed twice.
                with contextlib.suppress(AttributeError):
                    connection.transport.abort()
        # The protocols are notified in later iterations of the loop: wait for them.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                while self._connections:  # noqa: ASYNC110 - the set is uvicorn's or aiosmtpd's, and has no event
                    await asyncio.sleep(0.005)

    async def _reopen_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        async with self._lock:
            self._reopening = None
            await self._reopen()

    async def _reopen(self) -> None:
        if self._bound_socket is not None:
            await self._listen(self._bound_socket)
            logger.info("port_accepts setting=%s port=%d", self._setting, self.port)

    def _cancel_reopening(self) -> None:
        if self._reopening is not None:
            self._reopening.cancel()
            self._reopening = None
