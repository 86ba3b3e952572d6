"""The port: accepted sockets become connections."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tablebell.web import bind

BACKLOG = 4_096
KERNEL_BUFFER_BYTES = 128 * 1024


@asynccontextmanager
async def listening(connect: Callable[[], asyncio.Protocol], host: str, port: int) -> AsyncIterator[None]:
    accepting = bind(host, port)
    # Inherited by what is accepted. Left to itself the kernel would hide megabytes of a stalled peer's frames from us.
    accepting.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER_BYTES)
    server = await asyncio.get_running_loop().create_server(connect, sock=accepting, backlog=BACKLOG)
    try:
        yield
    finally:
        server.close()
