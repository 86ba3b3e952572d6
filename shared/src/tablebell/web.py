"""The HTTP endpoints of every service: health and metrics, served in the service's event loop."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import structlog
import uvicorn
from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from tablebell.health import CHECK_SECONDS, Health
from tablebell.http_protocol import BoundedHttpProtocol, HttpLimits, close_overdue_connections
from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe
from tablebell.sources import SourceCounter, TrustedProxies

log = structlog.get_logger(__name__)

Refresh = Callable[[], Awaitable[None]]


def mount_health(app: FastAPI, health: Health, refresh: Refresh | None = None) -> None:
    """Add /health/live, /health/ready and /metrics. They need no token: do not expose the port publicly.

    `refresh` updates the gauges that need a query. It runs only at a scrape.
    """

    async def live(_: Request) -> Response:
        return JSONResponse({"status": "live"})

    async def ready(_: Request) -> Response:
        failures = await health.report()
        if failures:
            return JSONResponse({"status": "not ready", "because": failures}, status_code=503)
        return JSONResponse({"status": "ready"})

    async def metrics(_: Request) -> Response:
        await health.report()
        if refresh is not None:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await refresh()
            except OUTAGES as outage:  # the other metrics matter most during an outage
                log.warning("metrics_not_refreshed", error=describe(outage))
        return Response(generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.add_route("/health/live", live, include_in_schema=False)
    app.add_route("/health/ready", ready, include_in_schema=False)
    app.add_route("/metrics", metrics, include_in_schema=False)


def health_app(service: str, health: Health, refresh: Refresh | None = None) -> FastAPI:
    """The HTTP application of a service without an API of its own."""
    app = FastAPI(title=service, docs_url=None, redoc_url=None, openapi_url=None)
    mount_health(app, health, refresh)
    return app


class PortTaken(Exception):
    """The port of this service is in use."""


class _Server(uvicorn.Server):
    """Uvicorn without signal handlers: `lifecycle.run` handles the signals of the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: ASGIApp, host: str, port: int, stop: Stop, limits: HttpLimits | None = None) -> None:
    """Serve until a stop is requested, then finish the requests in progress."""
    limits = limits or HttpLimits()
    listening = bind(host, port)
    protocol = partial(
        BoundedHttpProtocol,
        limits,
        TrustedProxies(limits.trusted_proxies),
        SourceCounter(limits.connections_per_source),
    )
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", protocol),
        ws="none",  # an upgraded connection would have none of the limits
        timeout_keep_alive=limits.keep_alive_seconds,
        proxy_headers=False,  # the protocol reads them, from trusted proxies only
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="http")
    overdue = asyncio.create_task(close_overdue_connections(server.server_state.connections), name="http-deadlines")
    stop_waiter = asyncio.create_task(stop.wait(), name="http-stop")
    try:
        await asyncio.wait({serving, stop_waiter}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        overdue.cancel()
        stop_waiter.cancel()
        listening.close()


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise PortTaken(f"cannot listen on {host}:{port} (PORT): {error.strerror}") from error
    return listening
