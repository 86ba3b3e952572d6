"""Whether a person may still use the API: they exist, are active, and their token has not been revoked.

The answer is cached for a few seconds, so that a request costs no query, and a deactivated person is refused within
`PERSON_CACHE_SECONDS`.
"""

import time
from dataclasses import dataclass

from reservation_api import store
from reservation_api.problem import Problem, ProblemType
from tablebell.people import UserType
from tablebell.postgres import Executor, Pool
from tablebell.tokens import Identity

MAX_CACHED = 50_000
READ_ONLY = "READ_ONLY"


@dataclass(frozen=True, slots=True)
class Access:
    """What the database says about a person."""

    active: bool
    role: str | None
    revoked_before: float | None
    revoked_tokens: frozenset[str]

    @property
    def is_read_only(self) -> bool:
        return self.role == READ_ONLY

    def refusal(self, identity: Identity) -> str | None:
        if not self.active:
            return "The token's user has been deactivated."
        if identity.token_id in self.revoked_tokens:
            return "The token has been revoked."
        if self.revoked_before is not None and identity.is_revoked_by(self.revoked_before):
            return "The token has been revoked."
        return None


class AccessControl:
    def __init__(self, pool: Pool, cache_seconds: float) -> None:
        self._pool = pool
        self._cache_seconds = cache_seconds
        self._cache: dict[tuple[UserType, int], tuple[float, Access | None]] = {}

    async def check(self, identity: Identity) -> Access:
        """401 unless the person exists, is active, and the token has not been revoked."""
        access = await self._find(identity.user_type, identity.user_id)
        if access is None:
            raise unknown_user()
        refusal = access.refusal(identity)
        if refusal is not None:
            raise _refused(refusal)
        return access

    async def _find(self, user_type: UserType, user_id: int) -> Access | None:
        # The time before the query: what is committed after it may be missing in the answer.
        now = time.monotonic()
        cached = self._cache.get((user_type, user_id))
        if cached is not None and now - cached[0] < self._cache_seconds:
            return cached[1]
        row = await store.find_access(self._pool, user_type, user_id)
        access = None if row is None else _access(row)
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[user_type, user_id] = (now, access)
        return access


def unknown_user() -> Problem:
    return _refused("The token's user does not exist.")


def _refused(reason: str) -> Problem:
    """The token is valid, but its user may not use it."""
    return Problem(ProblemType.NO_VALID_TOKEN, reason, headers={"WWW-Authenticate": 'Bearer error="invalid_token"'})


def _access(row: store.Row) -> Access:
    return Access(row["active"], row["role"], row["revoked_before"], frozenset(row["revoked_tokens"]))


async def revoke_token(connection: Executor, identity: Identity) -> None:
    """End one token, as a sign-out does. Call it in the transaction that ends the session."""
    await store.append_revocation(connection, identity.user_type, identity.user_id, identity.token_id)


async def revoke_all_tokens(connection: Executor, user_type: UserType, user_id: int) -> None:
    """End every token that the person has now. Tokens that are issued later are valid."""
    await store.append_revocation(connection, user_type, user_id, None)
