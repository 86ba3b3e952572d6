"""Correlation, one log line, metrics and the 500 response, for every request."""

import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reservation_api.metrics import LATENCY, REQUESTS
from reservation_api.problem import Problem, ProblemType
from tablebell.correlation import Correlation
from tablebell.tracing import SpanKind, annotate, traced

log = structlog.get_logger(__name__)

# Clients can send any method name: only these become label values.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Probes, scrapes and the gateways' polls are not logged or counted.
QUIET = ("/health/", "/metrics", "/internal/")


class RequestMiddleware:
    """ASGI middleware around everything but the security headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(QUIET):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        started = time.perf_counter()
        status = 0

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Correlation-Id"] = correlation.correlation_id
            await send(message)

        incoming = Correlation.begin(headers.get("x-correlation-id"), headers.get("traceparent"))
        with traced(incoming, _method(scope), headers, SpanKind.SERVER) as correlation:
            try:
                await self._app(scope, receive, observed_send)
            except Exception:
                log.exception("request_failed", method=scope["method"], path=scope["path"])
                if status == 0:
                    await Problem(ProblemType.INTERNAL).response()(scope, receive, observed_send)
            _record(scope, status, time.perf_counter() - started)


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else "unknown"


def _record(scope: Scope, status: int, seconds: float) -> None:
    # The template instead of the path: ids would make the number of label values unbounded.
    route = getattr(scope.get("route"), "path", "unknown")
    method = _method(scope) if route != "unknown" else "unknown"
    REQUESTS.labels(method, route, str(status)).inc()
    LATENCY.labels(method, route).observe(seconds)
    annotate(name=f"{method} {route}", failed=status >= 500, status=status)
    log.info(
        "request_answered",
        client=scope["client"][0] if scope.get("client") else None,
        method=scope["method"],
        route=route,
        path=scope["path"],
        status=status,
        milliseconds=round(seconds * 1000, 1),
    )
