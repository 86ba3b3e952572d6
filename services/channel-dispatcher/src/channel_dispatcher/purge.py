"""Deletes finished rows after the retention, in batches, together with their attempts. Dead rows stay for an operator.

Marks of undeliverable addresses expire too: the address may be valid again after some months.
"""

from datetime import timedelta

from channel_dispatcher import store
from tablebell.lifecycle import Stop
from tablebell.outbox import Level, OutboxTable
from tablebell.postgres import Pool
from tablebell.purging import keep_purging

BATCH_SIZE = 1000
INTERVAL_SECONDS = 600.0


class Purge:
    def __init__(self, pool: Pool, days: float, mark_days: float) -> None:
        self._pool = pool
        self._older_than = timedelta(days=days)
        self._marks_older_than = timedelta(days=mark_days)
        self._outbox = OutboxTable(Level.CHANNEL_SEND)

    async def run(self, stop: Stop) -> None:
        await keep_purging("retention", self.run_once, INTERVAL_SECONDS, stop)

    async def run_once(self) -> bool:
        async with self._pool.acquire() as connection:
            await store.purge_marks(connection, self._marks_older_than)
            return await self._outbox.purge(connection, older_than=self._older_than, limit=BATCH_SIZE) == BATCH_SIZE
