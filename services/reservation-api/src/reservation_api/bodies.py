"""Bodies are bounded and strict before anything else looks at them: small, JSON, UTF-8, no NaN, no endless nesting."""

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reservation_api.problem import Kind, Problem

FORGOTTEN = 1_048_576


class StrictBodies:
    """ASGI middleware: reads the whole body, within the bound, and hands it on if it is JSON."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self._app(scope, replay, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        body: bytes = b""
        size = 0
        while True:
            message = await receive()
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= self._limit:
                body += chunk
            # A little more is read and forgotten: who is cut off in the middle never gets to read why.
            if not message.get("more_body", False) or size > FORGOTTEN:
                break
        if size > self._limit:
            raise Problem(Kind.TOO_LARGE, f"A body has {self._limit} bytes at most.", headers={"Connection": "close"})
        if body:
            _check(body, headers.get("content-type", ""))
        return body


def _check(body: bytes, content_type: str) -> None:
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise Problem(Kind.NOT_JSON, "Send Content-Type: application/json.")
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Problem(Kind.MALFORMED, "The body is not JSON.") from None
