"""What one source can take from the service, and whose address counts as the source."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tablebell.postgres import Pool
from tablebell.testing import Database, eventually

from .conftest import Person, ask_body, running, settings_for, token

PATH = "/notifications/unread-count"
BAD = {"Authorization": "Bearer x.y.z"}


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


async def test_invalid_tokens_are_429_after_a_burst_and_valid_ones_from_the_same_source_pass(
    database: Database,
) -> None:
    settings = settings_for(database, auth_failures_burst=20, auth_failures_per_second=0.01)
    async with running(settings) as api, httpx.AsyncClient(base_url=api) as http:
        answers = [await http.get(PATH, headers=BAD if number % 2 else {}) for number in range(60)]
        assert [answer.status_code for answer in answers] == [401] * 20 + [429] * 40
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert answers[-1].headers["content-type"] == "application/problem+json"
        valid = {"Authorization": f"Bearer {token('CUSTOMER', 5)}"}
        assert (await http.get(PATH, headers=valid)).status_code == 200


async def test_failures_are_counted_per_client_behind_a_trusted_proxy(database: Database, logged: list[Any]) -> None:
    settings = settings_for(
        database, auth_failures_burst=1, auth_failures_per_second=0.01, trusted_proxies="127.0.0.0/8, ::1"
    )
    async with running(settings) as api, httpx.AsyncClient(base_url=api, headers=BAD) as http:

        async def status(forwarded_for: str) -> int:
            return (await http.get(PATH, headers={"X-Forwarded-For": forwarded_for})).status_code

        assert await status("203.0.113.5") == 401
        assert await status("203.0.113.5") == 429
        assert await status("198.51.100.1, 203.0.113.5") == 429, "what the client wrote itself does not count"
        assert await status("203.0.113.6") == 401
        assert await status("2001:db8:0:1::a") == 401
        assert await status("2001:db8:0:1::b") == 429, "one IPv6 customer has a whole /64"
    clients = [line["client"] for line in logged if line["event"] == "request_answered"]
    assert clients == ["203.0.113.5"] * 3 + ["203.0.113.6", "2001:db8:0:1::a", "2001:db8:0:1::b"]


async def test_an_untrusted_peer_cannot_choose_its_address(person: Person, logged: list[Any]) -> None:
    answer = await person("CUSTOMER", 5).get(PATH, headers={"X-Forwarded-For": "203.0.113.5"})
    assert answer.status_code == 200
    (line,) = (line for line in logged if line["event"] == "request_answered")
    assert line["client"] == "127.0.0.1"


async def test_the_settings_bound_headers_time_and_connections(database: Database) -> None:
    settings = settings_for(database, header_limit_bytes=2_000, header_seconds=0.5, max_connections_per_source=20)
    async with running(settings) as api:
        async with httpx.AsyncClient(base_url=api) as http:
            assert (await http.get("/health/live", headers={"X-Padding": "x" * 3_000})).status_code == 431
        held = [await asyncio.open_connection("127.0.0.1", settings.port) for _ in range(30)]
        for reader, _ in held:
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
        for _, writer in held:
            writer.close()


async def test_half_a_body_is_not_a_request(api: str, pool: Pool, logged: list[Any]) -> None:
    body = httpx.Request("POST", api, json=ask_body()).content
    head = (
        "POST /customer/reservation/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token('CUSTOMER', 5)}\r\nContent-Length: {len(body) + 1}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.rpartition(":")[2]))
    writer.write(head.encode() + body)
    writer.write_eof()
    await asyncio.wait_for(reader.read(), 10)
    writer.close()

    def is_over() -> bool:
        return any(line["event"] == "request_answered" for line in logged)

    await eventually(is_over)
    assert await pool.fetchval("SELECT count(*) FROM reservation") == 0
