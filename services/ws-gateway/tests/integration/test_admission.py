"""Connections that have not authenticated: their own pool, caps per source, and whose address is the source."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidHandshake, InvalidStatus

from tablebell.testing import eventually
from tablebell.testing.tokens import token

from .harness import RunningGateway, StartGateway, close_code, receive

Connect = Callable[[RunningGateway], Awaitable[asyncio.StreamReader]]


@pytest.fixture
async def connect_silently() -> AsyncIterator[Connect]:
    """Open TCP connections that send nothing."""
    writers = []

    async def connect(gateway: RunningGateway) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.port)
        writers.append(writer)
        return reader

    yield connect
    for writer in writers:
        writer.close()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(2):
            return await reader.read() == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


async def sign_in(gateway: RunningGateway, person: str, source: str) -> ClientConnection:
    client = await gateway.open(additional_headers={"X-Forwarded-For": source})
    await client.send(json.dumps({"type": "auth", "token": token(person)}))
    return client


async def test_silent_connections_do_not_take_the_place_of_users(
    start_gateway: StartGateway, connect_silently: Connect
) -> None:
    gateway = await start_gateway(max_connections=3, max_unauthenticated=5)
    first = await gateway.sign_in("RESTAURANT_USER:50")
    silent = [await connect_silently(gateway) for _ in range(20)]
    await gateway.sign_in("RESTAURANT_USER:51")
    await gateway.sign_in("RESTAURANT_USER:52")
    assert await is_closed(silent[0]), "the oldest makes room"
    await first.send('{"type":"ping"}')
    assert await receive(first) == {"type": "pong"}


async def test_one_source_cannot_fill_the_pool(start_gateway: StartGateway, connect_silently: Connect) -> None:
    gateway = await start_gateway(max_unauthenticated_per_source=5, auth_seconds=60)
    users = [await gateway.sign_in(f"RESTAURANT_USER:{number}") for number in range(50, 60)]
    assert len(users) == 10, "users are not counted there"
    silent = [await connect_silently(gateway) for _ in range(5)]
    assert await is_closed(await connect_silently(gateway))
    assert not any([await is_closed(reader) for reader in silent[:1]])


async def test_a_closed_connection_makes_room(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(max_unauthenticated_per_source=2)
    for _ in range(5):
        await (await gateway.open()).close()
        await eventually(lambda: is_metric(gateway, "gateway_unauthenticated 1.0"))  # the scrape itself


async def is_metric(gateway: RunningGateway, line: str) -> bool:
    return f"\n{line}\n" in await gateway.metrics()


async def test_too_many_users_of_one_source_close_with_4429(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(max_connections_per_source=2, trusted_proxies="127.0.0.1")
    for person in ("RESTAURANT_USER:50", "RESTAURANT_USER:51"):
        assert (await receive(await sign_in(gateway, person, "203.0.113.5")))["type"] == "ready"
    assert await close_code(await sign_in(gateway, "RESTAURANT_USER:52", "203.0.113.5")) == 4429
    assert (await receive(await sign_in(gateway, "RESTAURANT_USER:52", "203.0.113.6")))["type"] == "ready"


async def test_clients_behind_a_trusted_proxy_are_counted_one_by_one(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(max_unauthenticated_per_source=2, trusted_proxies="127.0.0.1")

    async def connect(forwarded_for: str) -> int:
        try:
            await gateway.open(additional_headers={"X-Forwarded-For": forwarded_for})
        except InvalidStatus as refused:
            return refused.response.status_code
        return 101

    assert [await connect("203.0.113.5") for _ in range(3)] == [101, 101, 429]
    assert await connect("192.0.2.1, 203.0.113.5") == 429, "what the client wrote itself does not count"
    assert await connect("203.0.113.6") == 101


async def test_an_untrusted_peer_cannot_choose_its_source(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(max_unauthenticated_per_source=2)
    opened = 0
    for number in range(4):
        with contextlib.suppress(OSError, InvalidHandshake):
            await gateway.open(additional_headers={"X-Forwarded-For": f"203.0.113.{number}"})
            opened += 1
    assert opened == 2


async def test_a_handshake_with_endless_headers_is_cut_off(gateway: RunningGateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.port)
    writer.write(b"GET /ws HTTP/1.1\r\n")
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < 40_000_000 and not reader.at_eof():
            writer.write(b"X-Padding: " + b"x" * 1_000 + b"\r\n")
            sent += 1_000
            await writer.drain()
            await asyncio.sleep(0)
    assert sent < 10_000_000
    writer.close()
    assert 'gateway_refused_total{status="431"}' in await gateway.metrics()
