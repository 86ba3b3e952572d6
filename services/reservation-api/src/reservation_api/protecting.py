"""Headers that protect what is answered: JSON is neither kept nor guessed at, no page is shown inside another."""

import base64
import hashlib
import re

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# The documentation's own files, which are the same for everybody.
STATIC = "/static-offline-docs/"


class Protected:
    """ASGI middleware, the outermost one: every answer passes it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def protected_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["X-Frame-Options"] = "DENY"
                headers["Referrer-Policy"] = "no-referrer"
                headers.setdefault("Content-Security-Policy", NOTHING)
                if not scope["path"].startswith(STATIC):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await self._app(scope, receive, protected_send)


def page_policy(page: bytes) -> str:
    """For the page of the documentation: its own files and its inline scripts, each by its hash, and nothing else."""
    hashes = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in INLINE_SCRIPT.findall(page)]
    scripts = " ".join(f"'sha256-{one}'" for one in hashes)
    # Swagger UI sets styles on its elements and shows images that it holds itself.
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
