"""The gauges of L1, refreshed at each scrape."""

from datetime import UTC, datetime

from notification_fanout.metrics import OUTBOX_OLDEST, OUTBOX_ROWS, OVERDUE
from tablebell.outbox import Level, OutboxTable
from tablebell.postgres import Pool

STATUSES = ("PENDING", "PROCESSING", "FAILED", "DEAD")


class Gauges:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._outbox = OutboxTable(Level.NOTIFICATION)

    async def refresh(self) -> None:
        async with self._pool.acquire() as connection:
            counts = {count.status: count for count in await self._outbox.count(connection)}
        now = datetime.now(UTC)
        for status in STATUSES:
            count = counts.get(status)
            OUTBOX_ROWS.labels(status).set(count.rows if count else 0)
            OUTBOX_OLDEST.labels(status).set((now - count.oldest).total_seconds() if count else 0)
        due = [count.first_due for count in counts.values() if count.status != "DEAD"]
        OVERDUE.set(max(0.0, (now - min(due)).total_seconds()) if due else 0)
