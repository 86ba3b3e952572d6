"""Writes down what became of a batch, under the lease with which it was claimed.

If the database refuses a statement because of a row, the rows are written one by one, and the row that is refused alone
is buried with the reason: one row never keeps the outcomes of the others from being recorded.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

import structlog

from event_relay import metrics
from event_relay.ordered_publisher import BatchResult
from tablebell.outage import OUTAGES, describe, raise_if_outage
from tablebell.outbox import Batch, Failure, OutboxQueue, bury_alone
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

RETRY_SECONDS = 0.5
NO_PAUSE = timedelta(0)

Write: TypeAlias = Callable[[Batch, Sequence[Failure]], Awaitable[None]]


class Recorder:
    def __init__(self, pool: Pool, outbox: OutboxQueue, max_attempts: int) -> None:
        self._pool = pool
        self._outbox = outbox
        self._max_attempts = max_attempts

    async def record(self, batch: Batch, report: BatchResult, until: float) -> None:
        """While the database is away, try again as long as the lease lasts: what is forgotten is published twice."""
        confirmed = [Failure(row_id, "", NO_PAUSE) for row_id in report.confirmed]
        await self._write("published", self._complete, confirmed, batch, until)
        await self._write("failed", self._fail, report.failed, batch, until)
        await self._write("put back", self._put_back, report.put_back, batch, until)
        if report.outage is not None:
            metrics.FAILURES.labels("unreachable").inc(len(report.put_back))
            log.warning("events_put_back", events=len(report.put_back), error=report.outage)

    async def _write(self, outcome: str, write: Write, rows: Sequence[Failure], batch: Batch, until: float) -> None:
        if not rows:
            return
        try:
            await self._insist(lambda: write(batch, rows), until)
        except Exception as error:
            if len(rows) > 1:
                log.exception("outcomes_not_recorded", outcome=outcome, events=len(rows))
                for row in rows:
                    await self._write(outcome, write, [row], batch, until)
            else:
                await self._bury(batch, rows[0].id, f"could not be recorded as {outcome}: {describe(error)}", until)

    async def _bury(self, batch: Batch, row_id: int, reason: str, until: float) -> None:
        async def bury() -> None:
            if await bury_alone(self._outbox, self._pool, Failure(row_id, reason, NO_PAUSE), token=batch.token):
                metrics.FAILURES.labels("dead").inc()

        await self._insist(bury, until)

    async def _insist(self, write: Callable[[], Awaitable[None]], until: float) -> None:
        while True:
            try:
                return await self._attempt(write)
            except OUTAGES as outage:
                log.warning("outcome_not_recorded", error=describe(outage))
                if time.monotonic() > until:
                    return None
                await asyncio.sleep(RETRY_SECONDS)

    async def _attempt(self, write: Callable[[], Awaitable[None]]) -> None:
        try:
            await write()
        except Exception as error:
            raise_if_outage(error)
            raise

    async def _complete(self, batch: Batch, rows: Sequence[Failure]) -> None:
        done = await self._outbox.complete_if_leased(self._pool, [row.id for row in rows], batch.token)
        metrics.PUBLISHED.inc(len(done))
        now = time.time()
        due = {row["id"]: row["due"] for row in batch.rows}
        for row_id in done:
            metrics.PUBLISH_SECONDS.observe(max(0.0, now - due[row_id].timestamp()))
        if len(done) < len(rows):
            metrics.FAILURES.labels("lease_lost").inc(len(rows) - len(done))
            log.warning("lease_lost", events=len(rows) - len(done))
        log.debug("events_published", ids=done)

    async def _fail(self, batch: Batch, rows: Sequence[Failure]) -> None:
        statuses = await self._outbox.fail_if_leased(self._pool, rows, batch.token, self._max_attempts)
        for failure in rows:
            status = statuses.get(failure.id, "LOST")
            metrics.FAILURES.labels("dead" if status == "DEAD" else "refused").inc()
            report_it = log.error if status == "DEAD" else log.warning
            report_it("event_failed", id=failure.id, status=status, error=failure.error)

    async def _put_back(self, batch: Batch, rows: Sequence[Failure]) -> None:
        await self._outbox.release_if_leased(self._pool, rows, batch.token)
