"""A TCP proxy that switches between servers, like the virtual address of a failover.

Existing connections stay with their server.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class VirtualAddress:
    def __init__(self, port: int) -> None:
        self.target = port
        """The port on 127.0.0.1 that new connections go to."""
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator["VirtualAddress"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target)
            await asyncio.gather(_copy(reader, to_server), _copy(from_server, writer))
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
