"""Writes down what became of a batch, under the lease with which it was claimed."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from event_relay import metrics
from event_relay.courier import Report
from tablebell.outage import OUTAGES, describe
from tablebell.outbox import Batch, Outbox
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

RETRY_SECONDS = 0.5


class Ledger:
    def __init__(self, pool: Pool, outbox: Outbox, max_attempts: int) -> None:
        self._pool = pool
        self._outbox = outbox
        self._max_attempts = max_attempts

    async def record(self, batch: Batch, report: Report, until: float) -> None:
        """While the database is away, try again as long as the lease lasts: what is forgotten is published twice."""
        if report.confirmed:
            await self._insist(lambda: self._complete(batch, report), until)
        if report.failed:
            await self._insist(lambda: self._fail(batch, report), until)
        if report.put_back:
            await self._insist(lambda: self._put_back(batch, report), until)

    async def _insist(self, write: Callable[[], Awaitable[None]], until: float) -> None:
        while True:
            try:
                return await write()
            except OUTAGES as outage:
                log.warning("outcome_not_recorded", error=describe(outage))
                if time.monotonic() > until:
                    return None
                await asyncio.sleep(RETRY_SECONDS)

    async def _complete(self, batch: Batch, report: Report) -> None:
        done = await self._outbox.complete_if_leased(self._pool, report.confirmed, batch.token)
        metrics.PUBLISHED.inc(len(done))
        now = time.time()
        due = {row["id"]: row["due"] for row in batch.rows}
        for row_id in done:
            metrics.PUBLISH_SECONDS.observe(max(0.0, now - due[row_id].timestamp()))
        if len(done) < len(report.confirmed):
            metrics.FAILURES.labels("lease_lost").inc(len(report.confirmed) - len(done))
            log.warning("lease_lost", events=len(report.confirmed) - len(done))
        log.debug("events_published", ids=done)

    async def _fail(self, batch: Batch, report: Report) -> None:
        statuses = await self._outbox.fail_if_leased(self._pool, report.failed, batch.token, self._max_attempts)
        for failure in report.failed:
            status = statuses.get(failure.id, "LOST")
            metrics.FAILURES.labels("dead" if status == "DEAD" else "refused").inc()
            report_it = log.error if status == "DEAD" else log.warning
            report_it("event_failed", id=failure.id, status=status, error=failure.error)

    async def _put_back(self, batch: Batch, report: Report) -> None:
        await self._outbox.release_if_leased(self._pool, report.put_back, batch.token)
        if report.outage is not None:
            metrics.FAILURES.labels("unreachable").inc(len(report.put_back))
            log.warning("events_put_back", events=len(report.put_back), error=report.outage)
