"""The public keys of a JWKS URL: cached, fetched again when they are old or when a token names an unknown key.

The cached keys stay valid while the URL does not answer.
"""

import asyncio
import time
from typing import Any

import httpx
import jwt
import structlog

from tablebell.outage import describe
from tablebell.tokens.identity import TokenRules
from tablebell.tokens.keys import decode_with, key_id

log = structlog.get_logger(__name__)

KEYS_FRESH_SECONDS = 300.0
KEYS_RETRY_SECONDS = 5.0
FIRST_RETRY_SECONDS = 0.5
"""Between attempts while no key is known."""


class KeySet:
    def __init__(self, url: str) -> None:
        self._url = url
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._published: list[Any] = []
        self._fetched = float("-inf")
        self._fetching = asyncio.Lock()
        self._background: asyncio.Task[None] | None = None
        self.version = 0

    @property
    def available(self) -> bool:
        return bool(self._keys)

    async def refresh(self) -> None:
        age = time.monotonic() - self._fetched
        if not self._keys:
            if age > FIRST_RETRY_SECONDS:
                await self._fetch()
        elif age > KEYS_FRESH_SECONDS and self._background is None:
            # The known keys are good enough for this token: it does not wait.
            self._background = asyncio.create_task(self._fetch(), name="fetch-keys")
            self._background.add_done_callback(self._on_fetched)

    async def decode(self, token: str, rules: TokenRules) -> dict[str, Any]:
        name = key_id(token)
        if name not in self._keys and time.monotonic() - self._fetched > KEYS_RETRY_SECONDS:
            await self._fetch()
        return decode_with(self._keys.get(name), token, rules)

    def _on_fetched(self, _: asyncio.Task[None]) -> None:
        self._background = None

    async def _fetch(self) -> None:
        requested_at = time.monotonic()
        async with self._fetching:
            if self._fetched > requested_at:  # another task fetched them meanwhile
                return
            try:
                async with httpx.AsyncClient(timeout=5.0) as http:
                    answer = await http.get(self._url)
                    answer.raise_for_status()
                    published = answer.json()
                    keys = jwt.PyJWKSet.from_dict(published).keys
            except (httpx.HTTPError, ValueError, TypeError, AttributeError, jwt.PyJWTError) as error:
                log.warning("keys_not_fetched", error=describe(error))
            else:
                self._keys = {key.key_id: key for key in keys if key.public_key_use in (None, "sig")}
                if published["keys"] != self._published:
                    self._published = published["keys"]
                    self.version += 1
            # After a failure too, so that a flood of tokens with unknown keys does not cause a fetch for each.
            self._fetched = time.monotonic()
