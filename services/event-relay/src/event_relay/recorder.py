"""Records the outcomes of a batch under the lease with which it was claimed.

If the database refuses a statement because of a row, the rows are recorded one by one, and a row that is refused
alone is buried with the reason. One row never prevents the recording of the others.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import structlog

from event_relay import metrics
from event_relay.ordered_publisher import BatchResult
from tablebell.outage import OUTAGES, describe, raise_if_outage
from tablebell.outbox import NO_PAUSE, Batch, Failure, OutboxQueue, bury_alone
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

RETRY_SECONDS = 0.5

Write: TypeAlias = Callable[[Batch, Sequence[Failure]], Awaitable[None]]


class Recorder:
    def __init__(self, pool: Pool, outbox: OutboxQueue, max_attempts: int) -> None:
        self._pool = pool
        self._outbox = outbox
        self._max_attempts = max_attempts

    async def record(self, batch: Batch, result: BatchResult, lease_end: float) -> None:
        """Retries until `lease_end` while the database is unavailable: an unrecorded confirm is published twice."""
        confirmed = [Failure(row_id, "", NO_PAUSE) for row_id in result.confirmed]
        await self._write("published", self._complete, confirmed, batch, lease_end)
        await self._write("failed", self._fail, result.failed, batch, lease_end)
        await self._write("released", self._release, result.released, batch, lease_end)
        if result.outage is not None:
            metrics.FAILURES.labels("unreachable").inc(len(result.released))
            log.warning("events_released", events=len(result.released), error=result.outage)

    async def _write(self, outcome: str, write: Write, rows: Sequence[Failure], batch: Batch, lease_end: float) -> None:
        if not rows:
            return
        try:
            await self._retry_outages(lambda: write(batch, rows), lease_end)
        except Exception as error:
            if len(rows) > 1:
                log.exception("outcomes_not_recorded", outcome=outcome, events=len(rows))
                for row in rows:
                    await self._write(outcome, write, [row], batch, lease_end)
            else:
                await self._bury(batch, rows[0].id, f"could not be recorded as {outcome}: {describe(error)}", lease_end)

    async def _bury(self, batch: Batch, row_id: int, reason: str, lease_end: float) -> None:
        async def bury() -> None:
            if await bury_alone(self._outbox, self._pool, Failure(row_id, reason, NO_PAUSE), token=batch.token):
                metrics.FAILURES.labels("dead").inc()

        await self._retry_outages(bury, lease_end)

    async def _retry_outages(self, write: Callable[[], Awaitable[None]], lease_end: float) -> None:
        while True:
            try:
                return await self._attempt(write)
            except OUTAGES as outage:
                log.warning("outcome_not_recorded", error=describe(outage))
                if time.monotonic() > lease_end:
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
            write_log = log.error if status == "DEAD" else log.warning
            write_log("event_failed", id=failure.id, status=status, error=failure.error)

    async def _release(self, batch: Batch, rows: Sequence[Failure]) -> None:
        await self._outbox.release_if_leased(self._pool, rows, batch.token)
