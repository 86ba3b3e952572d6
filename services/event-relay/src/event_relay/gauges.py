"""Updates the gauges that need a query, at each scrape."""

from datetime import UTC, datetime

from event_relay import metrics, store
from event_relay.relay import Relay
from tablebell.outbox import OutboxTable
from tablebell.partitions import Partitions
from tablebell.postgres import Pool

STATUSES = ("PENDING", "PROCESSING", "FAILED", "DEAD")


class Gauges:
    def __init__(self, pool: Pool, outbox: OutboxTable, relay: Relay, partitions: Partitions) -> None:
        self._pool = pool
        self._outbox = outbox
        self._relay = relay
        self._partitions = partitions

    async def refresh(self) -> None:
        metrics.OWNED.set(len(self._partitions.owned))
        metrics.IN_FLIGHT.set(self._relay.in_flight)
        counts = {count.status: count for count in await self._outbox.count(self._pool)}
        for status in STATUSES:
            metrics.ROWS.labels(status).set(counts[status].rows if status in counts else 0)
        metrics.OLDEST_PENDING.set(_age(counts["PENDING"].oldest) if "PENDING" in counts else 0)
        due = [counts[status].first_due for status in STATUSES if status in counts and status != "DEAD"]
        metrics.OVERDUE.set(_age(min(due)) if due else 0)
        metrics.LAG.set(await store.measure_lag(self._pool))


def _age(since: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - since).total_seconds())
