"""The limits of the HTTP server: bytes, time and connections of one peer; the client's address behind a proxy."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tablebell.http_protocol import HttpLimits
from tablebell.lifecycle import Stop
from tablebell.testing import eventually, free_port
from tablebell.web import serve

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def client(request: Request) -> Response:
    return PlainTextResponse(request.client.host if request.client else "")


async def size(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def large(_: Request) -> Response:
    return PlainTextResponse("x" * 20_000_000)


SITE = Starlette(routes=[Route("/", client), Route("/", size, methods=["POST"]), Route("/large", large)])


@dataclass
class Server:
    port: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def send(self, data: bytes = b"") -> Connection:
        """Open a connection and send the data."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(data)
        return reader, writer

    async def is_up(self) -> bool:
        try:
            _, writer = await self.send()
        except OSError:
            return False
        writer.close()
        return True


@asynccontextmanager
async def running(**limits: Any) -> AsyncIterator[Server]:
    server, stop = Server(free_port()), Stop()
    serving = asyncio.create_task(serve(SITE, "127.0.0.1", server.port, stop, HttpLimits(**limits)))
    await eventually(server.is_up)
    try:
        yield server
    finally:
        for writer in server.writers:
            writer.close()
        stop.request()
        await serving


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What the server sent until it closed the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := await asyncio.wait_for(reader.read(65_536), 15):
            received += chunk
    return received


async def get(connection: Connection, request: bytes = GET) -> bytes:
    reader, writer = connection
    writer.write(request)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    return await reader.readexactly(length)


async def test_endless_headers_are_cut_off_long_before_they_fill_the_memory() -> None:
    async with running() as server:
        for start, more in (
            (b"GET / HTTP/1.1\r\n", b"X-Padding: " + b"x" * 1_000 + b"\r\n"),
            (b"GET / HTTP/1.1\r\nX-Endless: ", b"x" * 1_000),
            (b"GET /", b"x" * 1_000),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ", b"x" * 1_000),
        ):
            reader, writer = await server.send(start)
            sent = 0
            with contextlib.suppress(ConnectionError):
                while sent < 40_000_000 and not reader.at_eof():
                    writer.write(more * 10)
                    sent += 10_000
                    await writer.drain()
                    await asyncio.sleep(0)
            assert sent < 10_000_000, start


async def test_headers_beyond_the_limit_are_431_also_in_one_read() -> None:
    async with running(header_bytes=2_000) as server:
        fits = await get(await server.send(), b"GET / HTTP/1.1\r\nX-A: " + b"x" * 1_500 + b"\r\n\r\n")
        assert fits == b"127.0.0.1"
        for extra in (b"X-A: " + b"x" * 2_000 + b"\r\n", b"X-A: 1\r\n" * 1_000):
            reader, _ = await server.send(b"GET / HTTP/1.1\r\n" + extra + b"\r\n")
            assert (await read_to_end(reader)).startswith(b"HTTP/1.1 431 ")


async def test_bodies_larger_than_the_header_limit_pass_on_one_connection() -> None:
    async with running(header_bytes=2_000) as server:
        connection = await server.send()
        body = b"x" * 50_000
        request = b"POST / HTTP/1.1\r\nContent-Length: 50000\r\n\r\n" + body
        assert [await get(connection, request) for _ in range(3)] == [b"50000"] * 3


async def test_silent_and_dripping_connections_are_closed() -> None:
    async with running(header_seconds=0.5, body_seconds=0.5) as server:

        async def drip(start: bytes, byte: bytes) -> bytes:
            reader, writer = await server.send(start)

            async def keep_writing() -> None:
                with contextlib.suppress(ConnectionError):
                    while not writer.is_closing():
                        writer.write(byte)
                        await writer.drain()
                        await asyncio.sleep(0.1)

            writing = asyncio.create_task(keep_writing())
            received = await read_to_end(reader)
            writing.cancel()
            return received

        ended = await asyncio.gather(
            drip(b"", b""),
            drip(b"GET / HTTP/1.1\r\n", b"x"),
            drip(b"", b"\r\n"),
            drip(b"POST / HTTP/1.1\r\nContent-Length: 9000\r\n\r\n", b"x"),
        )
        assert set(ended) == {b""}


async def test_an_idle_connection_that_drips_blank_lines_is_closed_after_its_response() -> None:
    async with running(header_seconds=0.5, keep_alive_seconds=1) as server:
        connection = await server.send()
        assert await get(connection) == b"127.0.0.1"
        reader, writer = connection
        reading = asyncio.create_task(read_to_end(reader))
        with contextlib.suppress(ConnectionError):
            while not reading.done():
                writer.write(b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.2)
        assert await reading == b""


async def test_connections_are_limited_per_source_and_a_closed_one_makes_room() -> None:
    async with running(connections_per_source=3) as server:
        held = [await server.send() for _ in range(3)]
        assert [await get(connection) for connection in held] == [b"127.0.0.1"] * 3
        refused, _ = await server.send(GET)
        assert await read_to_end(refused) == b""
        held[0][1].close()

        async def is_served() -> bool:
            reader, writer = await server.send(GET)
            with contextlib.suppress(ConnectionResetError):
                served = await asyncio.wait_for(reader.read(1), 5) != b""
                writer.close()
                return served
            return False

        await eventually(is_served)


async def test_all_connections_together_are_limited() -> None:
    trusted = (ip_network("127.0.0.0/8"),)
    async with running(connections=3, connections_per_source=1, trusted_proxies=trusted) as server:
        held = [await server.send() for _ in range(3)]
        assert [await get(connection) for connection in held] == [b"127.0.0.1"] * 3
        refused, _ = await server.send(GET)
        assert await read_to_end(refused) == b""


async def test_many_pipelined_requests_are_refused() -> None:
    async with running() as server:
        reader, _ = await server.send(GET * 1_000)
        assert b" 400 " in await read_to_end(reader)


async def test_the_clients_address_comes_from_a_trusted_proxy_only() -> None:
    forwarded = b"GET / HTTP/1.1\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 198.51.100.7, 127.0.0.9\r\n\r\n"
    async with running() as server:
        assert await get(await server.send(), forwarded) == b"127.0.0.1"
    async with running(trusted_proxies=(ip_network("127.0.0.0/8"),)) as server:
        connection = await server.send()
        assert await get(connection, forwarded) == b"198.51.100.7"
        assert await get(connection) == b"127.0.0.1"


async def test_a_peer_that_does_not_read_its_response_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tablebell.http_protocol.CLOSE_SECONDS", 0.1)
    async with running(header_seconds=0.1, keep_alive_seconds=1) as server:
        reader, _ = await server.send(GET.replace(b"/ ", b"/large "))
        await asyncio.sleep(4)
        assert len(await read_to_end(reader)) < 20_000_000
