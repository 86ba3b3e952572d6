"""Around every request: its correlation, one canonical log line, its metrics, an answer even to what nobody foresaw."""

import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reservation_api.metrics import LATENCY, REQUESTS
from reservation_api.problem import Problem, ProblemType
from tablebell.correlation import Correlation
from tablebell.tracing import SpanKind, annotate, traced

log = structlog.get_logger(__name__)

# A client may send any word as its method: only these become labels.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Asked for every few seconds by machines: not worth a line each.
QUIET = ("/health/", "/metrics")


class RequestMiddleware:
    """ASGI middleware around everything that may fail."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(QUIET):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        began = time.perf_counter()
        status = 0

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Correlation-Id"] = correlation.correlation_id
            await send(message)

        begun = Correlation.begin(headers.get("x-correlation-id"), headers.get("traceparent"))
        with traced(begun, _method(scope), headers, SpanKind.SERVER) as correlation:
            try:
                await self._app(scope, receive, watched_send)
            except Exception:
                log.exception("request_failed", method=scope["method"], path=scope["path"])
                if status == 0:
                    await Problem(ProblemType.INTERNAL).response()(scope, receive, watched_send)
            _record(scope, status, time.perf_counter() - began)


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else "unknown"


def _record(scope: Scope, status: int, seconds: float) -> None:
    # The template, not the path: a path holds ids, and a label must not.
    route = getattr(scope.get("route"), "path", "unknown")
    method = _method(scope) if route != "unknown" else "unknown"
    REQUESTS.labels(method, route, str(status)).inc()
    LATENCY.labels(method, route).observe(seconds)
    annotate(name=f"{method} {route}", failed=status >= 500, status=status)
    log.info(
        "request_answered",
        method=scope["method"],
        route=route,
        path=scope["path"],
        status=status,
        milliseconds=round(seconds * 1000, 1),
    )
