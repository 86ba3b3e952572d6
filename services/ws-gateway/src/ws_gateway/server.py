"""The TCP server: it creates a connection for each accepted socket."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tablebell.web import bind

BACKLOG = 4_096
KERNEL_BUFFER_BYTES = 128 * 1024


@asynccontextmanager
async def open_server(create_connection: Callable[[], asyncio.Protocol], host: str, port: int) -> AsyncIterator[None]:
    server_socket = bind(host, port)
    # Accepted sockets inherit this. By default the kernel hides megabytes of a stalled peer's data from us.
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER_BYTES)
    server = await asyncio.get_running_loop().create_server(create_connection, sock=server_socket, backlog=BACKLOG)
    try:
        yield
    finally:
        server.close()
