"""The gauges of an outbox, with the same names on every level. They are refreshed at each scrape.

They describe the whole table: every replica reports the same values. The queries read only open and dead rows.
"""

from collections.abc import Sequence

from prometheus_client import Gauge

from tablebell.outbox.table import Delay, OutboxTable
from tablebell.postgres import Pool

STATUSES = ("PENDING", "PROCESSING", "FAILED", "DEAD")

ROWS = Gauge("outbox_rows", "Open and dead rows by status, planned ones included.", ["level", "status"])
LAG = Gauge("outbox_lag_seconds", "Time since the oldest due row became due; 0 if none is due.", ["level", "channel"])
OVERDUE = Gauge(
    "outbox_overdue_seconds", "Time since the oldest open row was first due, including retries.", ["level", "channel"]
)


class OutboxGauges:
    def __init__(self, pool: Pool, outbox: OutboxTable, channels: Sequence[str | None] = (None,)) -> None:
        """`channels`: the channels of L2. L0 and L1 have none, and an empty label."""
        self._pool = pool
        self._outbox = outbox
        self._channels = channels

    async def refresh(self) -> None:
        rows = {count.status: count.rows for count in await self._outbox.count(self._pool)}
        for status in STATUSES:
            ROWS.labels(self._outbox.level, status).set(rows.get(status, 0))
        delays = {delay.channel: delay for delay in await self._outbox.measure_delays(self._pool)}
        for channel in self._channels:
            delay = delays.get(channel, Delay(channel, lag_seconds=0, overdue_seconds=0))
            LAG.labels(self._outbox.level, channel or "").set(delay.lag_seconds)
            OVERDUE.labels(self._outbox.level, channel or "").set(delay.overdue_seconds)
