"""A client of the API that alternates between the replicas and retries until one answers."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tablebell_tools.tokens import TokenIssuer

TIMEOUT = 90.0
PAUSE = 0.2
# httpx iterates over all waiting requests when one ends, and stalls with a thousand of them.
MAX_CONCURRENT = 50
STILL_RUNNING = "urn:tablebell:problem:still-running"


class NoAnswer(Exception):
    """No replica gave a definite answer in time."""


class ApiClient:
    def __init__(self, replicas: Sequence[httpx.AsyncClient], tokens: TokenIssuer) -> None:
        self._replicas = itertools.cycle(replicas)
        self._issuer = tokens
        self._tokens: dict[str, str] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self.lost_answers = 0

    async def call(
        self, person: str, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None
    ) -> httpx.Response:
        """The first definite answer: a success, or an error that a retry would not change."""
        headers = {"Authorization": f"Bearer {self._token(person)}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            try:
                async with self._slots:
                    answer = await next(self._replicas).request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                self.lost_answers += 1
            else:
                if not _is_temporary(answer):
                    return answer
            await asyncio.sleep(PAUSE)
        raise NoAnswer(f"{method} {path}")

    async def inbox(self, person: str) -> list[dict[str, Any]]:
        """All pages of the inbox."""
        items: list[dict[str, Any]] = []
        path = "/notifications?limit=100"
        while True:
            page = (await self.call(person, "GET", path)).raise_for_status().json()
            items += page["items"]
            if page["nextCursor"] is None:
                return items
            path = f"/notifications?limit=100&cursor={page['nextCursor']}"

    def _token(self, person: str) -> str:
        if person not in self._tokens:
            self._tokens[person] = self._issuer.issue(person)
        return self._tokens[person]


def _is_temporary(answer: httpx.Response) -> bool:
    if answer.status_code == 409:
        return bool(answer.json().get("type") == STILL_RUNNING)
    return answer.status_code == 429 or answer.status_code >= 500


@asynccontextmanager
async def open_api_client(urls: Sequence[str], tokens: TokenIssuer) -> AsyncIterator[ApiClient]:
    clients = [httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) for url in urls]
    try:
        yield ApiClient(clients, tokens)
    finally:
        for client in clients:
            await client.aclose()
