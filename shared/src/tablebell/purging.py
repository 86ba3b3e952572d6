"""Purging: every service deletes its rows past their retention in bounded batches, with a pause after each.

The pause is a multiple of the time that the batch took, so that purging takes a small share of the database's time and
makes progress under any load. A purge that fails does not end the service; it is repeated at the next interval.

`purge_horizon` records up to when the history was purged. `make audit` checks only rows created later.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from prometheus_client import Counter

from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outage import OUTAGES
from tablebell.postgres import Connection, Pool
from tablebell.sqlfile import load_queries
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

SQL = load_queries("tablebell", "sql", "purging.sql")

BATCH_SIZE = 1_000
FIRST_AFTER_SECONDS = 60.0
"""Delays the first purge after a start. It is short, so that a service that restarts often still purges."""
SHORTEST_PAUSE = 0.1
PAUSE_PER_SECOND = 4.0
"""At most a fifth of the time is spent on purging."""

PURGED = Counter("rows_purged_total", "Rows deleted past their retention, by the name of the retention.", ["retention"])
FAILURES = Counter("purge_failures_total", "Purges that ended with an error.", ["retention"])


@dataclass(frozen=True, slots=True)
class Retention:
    """How long some rows of a table are kept."""

    name: str
    keep: timedelta
    purge: Callable[[Connection, timedelta, int], Awaitable[int]]
    """Deletes rows older than `keep`, up to a limit, and returns their number. Never commits."""
    is_history: bool = True
    """The rows are part of the history that `make audit` checks."""


class Purge:
    """Deletes a batch of each retention, each in a transaction of its own. One replica purges at a time."""

    def __init__(self, pool: Pool, retentions: Sequence[Retention], batch_size: int = BATCH_SIZE) -> None:
        self._pool = pool
        self._retentions = retentions
        self._batch_size = batch_size

    async def run(self, every_seconds: float, stop: Stop) -> None:
        await keep_purging("purge", self.run_once, every_seconds, stop)

    async def run_once(self) -> bool:
        """Returns whether there may be more."""
        purged = [await self._purge(retention) for retention in self._retentions]
        return max(purged, default=0) >= self._batch_size

    async def _purge(self, retention: Retention) -> int:
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                if not await connection.fetchval(SQL["lock_purge"], retention.name):
                    return 0
                rows = await retention.purge(connection, retention.keep, self._batch_size)
                if rows and retention.is_history:
                    await connection.execute(SQL["record_purge"], retention.name, retention.keep)
        except OUTAGES:
            raise
        except Exception:  # the other retentions continue
            log.exception("purge_failed", retention=retention.name)
            FAILURES.labels(retention.name).inc()
            return 0
        PURGED.labels(retention.name).inc(rows)
        if rows:
            log.info("rows_purged", retention=retention.name, rows=rows)
        return rows


async def keep_purging(
    name: str,
    purge_batch: Callable[[], Awaitable[bool]],
    every_seconds: float,
    stop: Stop,
    first_after: float = FIRST_AFTER_SECONDS,
) -> None:
    """`purge_batch` deletes a bounded number of rows and returns whether there may be more."""
    await stop.sleep(min(every_seconds, first_after))

    async def purge_and_pause() -> bool:
        began = time.monotonic()
        try:
            more = await purge_batch()
        except OUTAGES:
            raise
        except Exception:
            log.exception("purge_failed", worker=name)
            return False
        if more:
            await stop.sleep(max(SHORTEST_PAUSE, PAUSE_PER_SECOND * (time.monotonic() - began)))
        return more

    await keep_running(name, purge_and_pause, Wakeup(), every_seconds, stop)
