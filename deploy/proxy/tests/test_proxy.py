"""The proxy's own configuration in a real HAProxy, in front of a server that answers with what it was sent."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tablebell.lifecycle import Stop
from tablebell.testing import eventually, free_port
from tablebell.web import serve

DEPLOY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Proxy:
    api_port: int
    gateway_port: int

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def urls(self) -> tuple[str, str]:
        return self.api_url, f"http://127.0.0.1:{self.gateway_port}"


@pytest.fixture(scope="session")
def haproxy() -> str:
    """Installed if it may be, else the tests are skipped and say why."""
    installing = subprocess.run(
        [DEPLOY / "local" / "bootstrap", "haproxy"], capture_output=True, text=True, check=False, timeout=240
    )
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip(f"HAProxy is not installed: {' '.join(installing.stderr.split())[-300:]}")
    return program


async def forwarded_for(request: Request) -> Response:
    return PlainTextResponse(",".join(request.headers.getlist("x-forwarded-for")))


async def unauthorized(_: Request) -> Response:
    return PlainTextResponse("", 401)


SITE = Starlette(
    routes=[
        Route("/health/ready", lambda _: PlainTextResponse("ready")),
        Route("/metrics", lambda _: PlainTextResponse("secret")),
        Route("/unauthorized", unauthorized),
        Route("/", forwarded_for, methods=["GET", "POST"]),
    ]
)


@asynccontextmanager
async def running(haproxy: str, folder: Path, **environment: str) -> AsyncIterator[Proxy]:
    proxy, upstream, stop = Proxy(free_port(), free_port()), free_port(), Stop()
    text = (DEPLOY / "proxy" / "haproxy.cfg").read_text()
    text = text.replace("bind :8080", f"bind 127.0.0.1:{proxy.api_port}")
    text = text.replace("bind :8081", f"bind 127.0.0.1:{proxy.gateway_port}")
    # The clients of these tests are on loopback, where the health check of the container comes from.
    text = text.replace("!{ src 127.0.0.0/8 }", "!{ src 127.0.0.9 }").replace(
        "timeout http-request 10s", "timeout http-request 1s"
    )
    text = re.sub(r"server-template (\w+) .*", rf"server \1 127.0.0.1:{upstream}", text)
    config = folder / "haproxy.cfg"
    await asyncio.to_thread(config.write_text, text)
    settings = {"MAX_CONNECTIONS_PER_SOURCE": "300", "EDGE_PROXIES": "192.0.2.1 192.0.2.2", **environment}
    serving = asyncio.create_task(serve(SITE, "127.0.0.1", upstream, stop))
    process = await asyncio.create_subprocess_exec(haproxy, "-db", "-f", config, env={**os.environ, **settings})
    try:

        async def is_up() -> bool:
            with contextlib.suppress(httpx.TransportError):
                async with httpx.AsyncClient() as http:
                    return all([(await http.get(url)).status_code == 200 for url in proxy.urls])
            return False

        await eventually(is_up)
        yield proxy
    finally:
        process.kill()
        await process.wait()
        stop.request()
        await serving


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionResetError):
        return await asyncio.wait_for(reader.read(), 10)
    return b""


async def test_health_and_metrics_are_denied_from_outside(haproxy: str, tmp_path: Path) -> None:
    async with running(haproxy, tmp_path) as proxy, httpx.AsyncClient() as http:
        for url in proxy.urls:
            for path in ("/metrics", "/%6detrics", "/health/ready", "/%68ealth/live", "/internal/access"):
                assert (await http.get(url + path)).status_code == 403, path


async def test_the_routes_of_the_services_are_denied_from_outside(haproxy: str, tmp_path: Path) -> None:
    async with running(haproxy, tmp_path) as proxy, httpx.AsyncClient() as http:
        for path in ("/internal/revocations", "/%69nternal/people/without-access"):
            assert (await http.get(proxy.api_url + path)).status_code == 403, path


async def test_the_services_get_the_address_of_the_client_whatever_it_claims(haproxy: str, tmp_path: Path) -> None:
    async with running(haproxy, tmp_path) as proxy, httpx.AsyncClient() as http:
        for url in proxy.urls:
            answer = await http.get(url, headers={"X-Forwarded-For": "203.0.113.5"})
            assert answer.text == "127.0.0.1"


async def test_a_proxy_in_front_names_the_client_if_it_is_trusted(haproxy: str, tmp_path: Path) -> None:
    async with running(haproxy, tmp_path, EDGE_PROXIES="192.0.2.1 127.0.0.1") as proxy, httpx.AsyncClient() as http:
        for url in proxy.urls:
            answer = await http.get(url, headers={"X-Forwarded-For": "198.51.100.9, 203.0.113.5"})
            assert answer.text == "203.0.113.5"


async def test_clients_that_drip_get_408_and_large_headers_400(haproxy: str, tmp_path: Path) -> None:
    async with running(haproxy, tmp_path) as proxy:
        for port, start, status in (
            (proxy.api_port, b"GET / HTTP/1.1\r\nHost:", b"408"),
            (proxy.gateway_port, b"GET / HTTP/1.1\r\nHost:", b"408"),
            (proxy.api_port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\nx", b"408"),
            (proxy.api_port, b"GET / HTTP/1.1\r\nHost: x\r\nX-Padding: " + b"x" * 20_000 + b"\r\n\r\n", b"400"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(start)
            assert (await read_to_end(reader)).split()[1:2] == [status], start[:60]
            writer.close()


async def test_connections_are_limited_per_source(haproxy: str, tmp_path: Path) -> None:
    async def is_served(port: int, writers: list[asyncio.StreamWriter]) -> bool:
        with contextlib.suppress(ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return await asyncio.wait_for(reader.read(1), 10) != b""
        return False

    async with running(haproxy, tmp_path, MAX_CONNECTIONS_PER_SOURCE="5") as proxy:
        for port in (proxy.api_port, proxy.gateway_port):
            writers: list[asyncio.StreamWriter] = []
            served = [await is_served(port, writers) for _ in range(12)]
            for writer in writers:
                writer.close()
            assert 1 <= sum(served) <= 5


async def test_a_source_with_many_errors_gets_429_with_retry_after(haproxy: str, tmp_path: Path) -> None:
    async with running(haproxy, tmp_path) as proxy, httpx.AsyncClient(base_url=proxy.api_url) as http:
        answers = [await http.get("/unauthorized") for _ in range(400)]
        assert answers[0].status_code == 401
        assert (answers[-1].status_code, answers[-1].headers["Retry-After"]) == (429, "10")
