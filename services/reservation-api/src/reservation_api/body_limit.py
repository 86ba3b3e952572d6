"""Checks request bodies before anything else reads them: size, JSON, UTF-8, no NaN, bounded nesting.

The import takes CSV instead, with a limit of its own; its reader checks the content.

JSON allows numbers of any size, orjson does not. A number beyond a double is replaced by a smaller one that is still
out of every field's range, so that validation can name the field.
"""

import math
import re

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reservation_api.problem import Problem, ProblemType

# Less than REQUEST_BYTES of tablebell.http_protocol, which drops the connection.
MAX_DISCARDED = 1_200_000
CSV_PATH = "/admin/import"
CSV_LIMIT = 1_048_576

# Matches a string or a JSON number; strings are matched so that digits inside them are skipped. The closing quote is
# optional: otherwise an unterminated string would take quadratic time.
STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"?|(-?)(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?', re.DOTALL)
LARGEST_INTEGER = b"1" + b"0" * 30
LARGEST_FLOAT = b"1e308"


class BodyLimit:
    """ASGI middleware: reads the whole body, up to the limit, and passes it on if its type is the expected one."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._checked_body(scope, receive)
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        if body is None:
            return
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self._app(scope, replay, send)

    async def _checked_body(self, scope: Scope, receive: Receive) -> bytes | None:
        content_type = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
        if scope["path"] == CSV_PATH:
            body = await _read(receive, CSV_LIMIT)
            if body and content_type != "text/csv":
                raise Problem(ProblemType.NOT_JSON, "Send Content-Type: text/csv.")
            return body
        body = await _read(receive, self._limit)
        return _checked(body, content_type) if body else body


async def _read(receive: Receive, limit: int) -> bytes | None:
    """Returns None if the client disconnects first: half a body can be valid JSON too."""
    body = bytearray()
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= limit:
            body += chunk
        # Read and discard some more: a client that is cut off while sending may never read the response.
        if not message.get("more_body", False) or size > MAX_DISCARDED:
            break
    if size > limit:
        raise Problem(ProblemType.TOO_LARGE, f"The maximum is {limit} bytes.", headers={"Connection": "close"})
    return bytes(body)


def _checked(body: bytes, content_type: str) -> bytes:
    if content_type != "application/json":
        raise Problem(ProblemType.NOT_JSON, "Send Content-Type: application/json.")
    if not _is_json(body):
        body = STRING_OR_NUMBER.sub(_within_a_double, body)
        if not _is_json(body):
            raise Problem(ProblemType.MALFORMED, "The request body is not valid JSON.")
    return body


def _is_json(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


def _within_a_double(token: re.Match[bytes]) -> bytes:
    text = token[0]
    if text.startswith(b'"') or math.isfinite(float(text)):
        return text
    is_integer = token[2] is None and token[3] is None
    return token[1] + (LARGEST_INTEGER if is_integer else LARGEST_FLOAT)
