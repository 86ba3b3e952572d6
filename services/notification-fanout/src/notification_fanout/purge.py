"""Deletes completed rows past their retention, in bounded steps. One replica purges at a time.

processed_event detects redelivered messages, so its retention must be longer than a message can stay in a queue.
"""

from datetime import timedelta

import structlog

from notification_fanout import store
from notification_fanout.metrics import PURGED
from tablebell.outbox import Level, OutboxTable
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)


class Purge:
    def __init__(self, pool: Pool, *, retention: timedelta, limit: int = 1_000) -> None:
        self._pool = pool
        self._retention = retention
        self._limit = limit
        self._outbox = OutboxTable(Level.NOTIFICATION)

    async def run_once(self) -> bool:
        async with self._pool.acquire() as connection, connection.transaction():
            if not await store.lock_purge(connection):
                return False
            events = await store.purge_processed_events(connection, self._retention, self._limit)
            rows = await self._outbox.purge(connection, older_than=self._retention, limit=self._limit)
        if events or rows:
            log.info("rows_purged", processed_event=events, notification_outbox=rows)
        PURGED.labels("processed_event").inc(events)
        PURGED.labels(Level.NOTIFICATION).inc(rows)
        return self._limit in (events, rows)
