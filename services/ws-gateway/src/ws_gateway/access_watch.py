"""Asks reservation-api every few seconds which tokens are revoked, and which of the new users may not connect.

Until the first list has been read the gateway accepts nobody. Later the last list stays valid while the API does not
answer: the gateway keeps working, and the metric shows the age of the list.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import httpx
import structlog
from pydantic import SecretStr, ValidationError

from tablebell.access_list import MAX_PEOPLE, PEOPLE_PATH, REVOCATIONS_PATH, People, Revocation, RevocationList
from tablebell.outage import describe
from ws_gateway import metrics

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 2.0


class NotReadYet(Exception):
    """The revocations have not been read since the start."""


class AccessWatch:
    def __init__(
        self,
        url: str,
        token: SecretStr,
        on_revocations: Callable[[Sequence[Revocation]], None],
        on_refused: Callable[[Sequence[str]], None],
        poll_seconds: float,
    ) -> None:
        headers = {"Authorization": f"Bearer {token.get_secret_value()}"}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=ANSWER_SECONDS)
        self._on_revocations = on_revocations
        self._on_refused = on_refused
        self._poll_seconds = poll_seconds
        self._unchecked: set[str] = set()
        self._tag = ""
        self._read_at: float | None = None
        self._started_at = time.monotonic()
        self._failing = False

    @property
    def has_read(self) -> bool:
        return self._read_at is not None

    async def check(self) -> None:
        """Raise until the revocations have been read once."""
        if not self.has_read:
            raise NotReadYet("the revocations have not been read yet")

    def add(self, person: str) -> None:
        """A new session of this person: check with the next request that the person exists and is active."""
        self._unchecked.add(person)

    async def run(self) -> None:
        async with self._http:
            while True:
                await self.run_once()
                await asyncio.sleep(self._poll_seconds if self.has_read else min(0.5, self._poll_seconds))

    async def run_once(self) -> None:
        try:
            await self._read_revocations()
            await self._check_people()
        except (httpx.HTTPError, ValidationError) as error:
            if not self._failing:
                log.warning("access_not_checked", error=describe(error))
            self._failing = True
        else:
            self._failing = False
        metrics.REVOCATIONS_AGE.set(time.monotonic() - (self._read_at or self._started_at))

    async def _read_revocations(self) -> None:
        asked_at = time.monotonic()
        answer = await self._http.get(REVOCATIONS_PATH, headers={"If-None-Match": self._tag} if self._tag else None)
        if answer.status_code != httpx.codes.NOT_MODIFIED:
            answer.raise_for_status()
            self._on_revocations(RevocationList.model_validate_json(answer.content).revocations)
            self._tag = answer.headers.get("ETag", "")
        self._read_at = asked_at

    async def _check_people(self) -> None:
        while self._unchecked:
            batch = list(self._unchecked)[:MAX_PEOPLE]
            answer = await self._http.post(PEOPLE_PATH, json={"people": batch})
            answer.raise_for_status()
            self._unchecked.difference_update(batch)
            self._on_refused(People.model_validate_json(answer.content).people)
