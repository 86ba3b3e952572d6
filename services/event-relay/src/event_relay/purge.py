"""Deletes published events past their retention, in small batches. One relay purges at a time."""

from datetime import timedelta

import structlog

from event_relay import metrics, store
from tablebell.outbox import OutboxTable
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

PURGE_BATCH = 1000


class Purge:
    def __init__(self, pool: Pool, outbox: OutboxTable, retention: timedelta) -> None:
        self._pool = pool
        self._outbox = outbox
        self._retention = retention

    async def run_once(self) -> bool:
        """Delete one batch. Returns whether there may be more."""
        async with self._pool.acquire() as connection, connection.transaction():
            if not await store.lock_purge(connection):
                return False
            purged = await self._outbox.purge(connection, older_than=self._retention, limit=PURGE_BATCH)
        if purged:
            metrics.PURGED.inc(purged)
            log.info("events_purged", events=purged)
        return purged == PURGE_BATCH
