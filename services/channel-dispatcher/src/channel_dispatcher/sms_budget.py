"""The limit of SMS per day, of all processes together: the provider charges for each.

The count is in the database. A claim takes a lock, counts, and claims at most what is left. If nothing is left, due
rows are postponed with the reason.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from channel_dispatcher import store
from tablebell.postgres import Connection, Pool

log = structlog.get_logger(__name__)

# How soon a postponed row is tried again: the limit may have been raised, or earlier SMS are a day old.
PAUSE = timedelta(minutes=10)
BATCH_SIZE = 1000


class SmsBudget:
    def __init__(self, pool: Pool, per_day: int) -> None:
        self._pool = pool
        self._per_day = per_day

    async def claim(self, limit: int, claim: Callable[[Connection, int], Awaitable[store.Claim]]) -> store.Claim:
        """Calls `claim` with as much of `limit` as the day has left."""
        async with self._pool.acquire() as connection, connection.transaction():
            await store.lock_sms(connection)
            left = self._per_day - await store.count_sms(connection)
            return await (claim(connection, min(limit, left)) if left > 0 else self._postpone(connection))

    async def _postpone(self, connection: Connection) -> store.Claim:
        reason = f"the limit of {self._per_day} SMS in 24 hours is reached"
        outcomes = await store.postpone_sms(connection, PAUSE, reason=reason, limit=BATCH_SIZE)
        if outcomes:
            log.error("sms_budget_used_up", per_day=self._per_day, rows=outcomes.total())
        finished = Counter({"EXPIRED": outcomes["EXPIRED"]})
        return store.Claim([], finished, last_restaurant=0, more=outcomes.total() == BATCH_SIZE)
