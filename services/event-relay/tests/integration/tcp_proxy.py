"""Counts the queries to PostgreSQL in the network traffic, including those that libraries make."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

QUERY, EXECUTE = b"Q", b"E"


class TcpProxy:
    def __init__(self, url: SecretStr) -> None:
        self._parts = urlsplit(url.get_secret_value())
        self._port = 0
        self.queries = 0

    @property
    def url(self) -> SecretStr:
        login = self._parts.netloc.rpartition("@")[0]
        through = self._parts._replace(netloc=f"{login}@127.0.0.1:{self._port}", query="sslmode=disable")
        return SecretStr(urlunsplit(through))

    @asynccontextmanager
    async def open(self) -> AsyncIterator["TcpProxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.gather(self._forward(reader, to_server), self._forward_back(from_server, writer))
        for each in (writer, to_server):
            each.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The first message has no type. Each later one has a type, a length and a body."""
        try:
            writer.write(await self._read_message(reader))
            while True:
                kind = await reader.readexactly(1)
                self.queries += kind in (QUERY, EXECUTE)
                writer.write(kind + await self._read_message(reader))
        finally:
            writer.close()

    async def _read_message(self, reader: asyncio.StreamReader) -> bytes:
        length = await reader.readexactly(4)
        return length + await reader.readexactly(int.from_bytes(length) - 4)

    async def _forward_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        finally:
            writer.close()
