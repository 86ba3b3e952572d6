"""Authentication, rate limit and access by user type.

401 without a valid token, 403 for a user type without access. The use case checks the owner and returns 404, so that
clients cannot find out which ids exist.
"""

import math
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from structlog.contextvars import bind_contextvars

from reservation_api.problem import Problem, ProblemType
from reservation_api.ratelimit import RateLimit
from tablebell.people import UserType
from tablebell.tokens import BadToken, Identity, TokenVerifier

bearer = HTTPBearer(auto_error=False, bearerFormat="JWT", description="`make -s token AS=customer:5` prints one.")

Dependency = Callable[..., Coroutine[Any, Any, Identity]]


class Auth:
    def __init__(self, verifier: TokenVerifier, limit: RateLimit) -> None:
        self._verifier = verifier
        self._limit = limit

    def only(self, *allowed: UserType) -> Dependency:
        """A dependency that admits these user types."""

        async def identify(
            credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
        ) -> Identity:
            identity = await self._verify(credentials)
            bind_contextvars(user_type=identity.user_type, user_id=identity.user_id)
            wait = self._limit.take((identity.user_type, identity.user_id))
            if wait:
                raise Problem(ProblemType.TOO_MANY_REQUESTS, headers={"Retry-After": str(math.ceil(wait))})
            if identity.user_type not in allowed:
                raise Problem(ProblemType.NOT_FOR_THIS_USER, f"A {identity.user_type} may not do this.")
            return identity

        return identify

    async def _verify(self, credentials: HTTPAuthorizationCredentials | None) -> Identity:
        if credentials is None:
            raise Problem(ProblemType.NO_VALID_TOKEN, headers={"WWW-Authenticate": "Bearer"})
        try:
            return await self._verifier.verify(credentials.credentials)
        except BadToken as error:
            raise Problem(
                ProblemType.NO_VALID_TOKEN, str(error), headers={"WWW-Authenticate": 'Bearer error="invalid_token"'}
            ) from None


def unknown_user() -> Problem:
    """The token is valid, but its user does not exist."""
    return Problem(
        ProblemType.NO_VALID_TOKEN, "The token's user does not exist.", headers={"WWW-Authenticate": "Bearer"}
    )
