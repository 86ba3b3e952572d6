"""The rate limit of requests without a token, per source address."""

import math

from fastapi import Request

from reservation_api.problem import Problem, ProblemType
from reservation_api.ratelimit import RateLimit
from tablebell.sources import source_of


class SourceLimit:
    """A dependency of public routes."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit

    async def __call__(self, request: Request) -> None:
        wait = self._limit.take(source_of(request.client.host if request.client else ""))
        if wait:
            raise Problem(ProblemType.TOO_MANY_REQUESTS, headers={"Retry-After": str(math.ceil(wait))})
