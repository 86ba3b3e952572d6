"""Idempotency keys: a repeated request gets the first response again and has no further effect.

The key is written in the transaction that does the work, so a crash leaves neither. A second request with the same key
waits up to 2 s for the first and then returns its response. Only successful responses are stored: a refused request
changed nothing and may succeed later.
"""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import asyncpg
from pydantic import BaseModel

from reservation_api import store
from reservation_api.problem import Problem, ProblemType
from reservation_api.transaction import in_transaction
from tablebell.people import UserType
from tablebell.postgres import Connection, Pool
from tablebell.tokens import Identity

KEEP = timedelta(hours=24)
WAIT = "SET LOCAL lock_timeout = '2s'"
NO_WAIT_LIMIT = "SET LOCAL lock_timeout = 0"

Owner = tuple[UserType, int]
AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Idempotency:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def once(
        self,
        identity: Identity,
        key: str,
        request: BaseModel,
        answer_type: type[AnswerT],
        work: Callable[[Connection], Awaitable[AnswerT]],
    ) -> tuple[AnswerT, bool]:
        """The response, and whether it is new. 409 while the first request runs, 422 if the request differs."""
        owner = (identity.user_type, identity.user_id)
        request_hash = hashlib.sha256(request.model_dump_json().encode()).digest()

        async def claim_and_work(connection: Connection) -> tuple[AnswerT, bool]:
            await connection.execute(WAIT)
            if not await store.claim_key(connection, owner, key, request_hash, KEEP):
                return await self._repeat(connection, owner, key, request_hash, answer_type), False
            await connection.execute(NO_WAIT_LIMIT)
            answer = await work(connection)
            await store.save_response(connection, owner, key, 200, answer.model_dump(mode="json", by_alias=True))
            return answer, True

        try:
            return await in_transaction(self._pool, claim_and_work)
        except asyncpg.LockNotAvailableError:
            raise Problem(ProblemType.STILL_RUNNING, headers={"Retry-After": "1"}) from None

    async def _repeat(
        self, connection: Connection, owner: Owner, key: str, request_hash: bytes, answer_type: type[AnswerT]
    ) -> AnswerT:
        row = await store.find_key(connection, owner, key)
        if row is None or row["response"] is None:
            raise Problem(ProblemType.STILL_RUNNING, headers={"Retry-After": "1"})
        if row["request_hash"] != request_hash:
            raise Problem(ProblemType.KEY_REUSED, "Use a new Idempotency-Key for a new request.")
        return answer_type.model_validate(row["response"])
