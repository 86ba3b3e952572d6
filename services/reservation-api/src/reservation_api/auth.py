"""Authentication, rate limit and access by user type.

401 without a valid token of an active person, 403 for a user type without access, and for a read-only admin who wants
to change something. The use case checks the owner and returns 404, so that clients cannot find out which ids exist. A
source that sends many invalid tokens gets 429 for these. Its valid tokens still pass: one broken client must not lock
out everyone behind the same address.
"""

import math
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from structlog.contextvars import bind_contextvars

from reservation_api.access import Access, AccessControl
from reservation_api.problem import Problem, ProblemType
from reservation_api.ratelimit import RateLimit
from tablebell.people import UserType
from tablebell.sources import source_of
from tablebell.tokens import BadToken, Identity, TokenVerifier

bearer = HTTPBearer(auto_error=False, bearerFormat="JWT", description="`make -s token AS=customer:5` prints one.")

READING = frozenset({"GET", "HEAD"})

Dependency = Callable[..., Coroutine[Any, Any, Identity]]


class Auth:
    def __init__(self, verifier: TokenVerifier, access: AccessControl, limit: RateLimit, failures: RateLimit) -> None:
        self._verifier = verifier
        self._access = access
        self._limit = limit
        self._failures = failures

    def only(self, *allowed: UserType, for_read_only: bool = False) -> Dependency:
        """A dependency that admits these user types; read-only admins only for reading, or if `for_read_only`."""

        async def identify(
            request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
        ) -> Identity:
            try:
                identity, access = await self._authenticate(credentials)
            except Problem as problem:
                if problem.kind is ProblemType.NO_VALID_TOKEN:
                    self._count_failure(request)
                raise
            bind_contextvars(user_type=identity.user_type, user_id=identity.user_id)
            wait = self._limit.take((identity.user_type, identity.user_id))
            if wait:
                raise _too_many(wait)
            if identity.user_type not in allowed:
                raise Problem(ProblemType.NOT_FOR_THIS_USER, f"A {identity.user_type} may not do this.")
            if access.is_read_only and not for_read_only and request.method not in READING:
                raise Problem(ProblemType.NOT_FOR_THIS_USER, "A read-only admin may not change anything.")
            return identity

        return identify

    async def _authenticate(self, credentials: HTTPAuthorizationCredentials | None) -> tuple[Identity, Access]:
        if credentials is None:
            raise Problem(ProblemType.NO_VALID_TOKEN, headers={"WWW-Authenticate": "Bearer"})
        try:
            identity = await self._verifier.verify(credentials.credentials)
        except BadToken as error:
            raise Problem(
                ProblemType.NO_VALID_TOKEN, str(error), headers={"WWW-Authenticate": 'Bearer error="invalid_token"'}
            ) from None
        return identity, await self._access.check(identity)

    def _count_failure(self, request: Request) -> None:
        wait = self._failures.take(source_of(request.client.host if request.client else ""))
        if wait:
            raise _too_many(wait, "Too many requests without a valid token came from your address.")


def _too_many(seconds: float, detail: str = "") -> Problem:
    return Problem(ProblemType.TOO_MANY_REQUESTS, detail, headers={"Retry-After": str(math.ceil(seconds))})
