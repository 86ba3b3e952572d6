"""Writes the results of attempts in batches.

Writing is the most expensive part of sending, and a batch costs little more than a row: results that arrive within a
few milliseconds share one statement. While the database is down, results wait in memory (`interrupted`), and nothing
new is claimed until they are written. A result is written only if the row still has its lease token. The token stays
valid after the lease has ended, until another process claims the row.

If a row makes the database reject the statement, the rows are written one by one. A row that is rejected alone is
buried with the reason.

Unrecorded results count against a channel's capacity (`count_unrecorded`). Otherwise a fast provider and a slow
database pile up more leases than can be renewed in time.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import structlog

from channel_dispatcher import store
from channel_dispatcher.attempt_record import AttemptRecord
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.marks import MarkLimit
from channel_dispatcher.metrics import MARKS, OUTCOMES
from tablebell.outage import OUTAGES, describe, raise_if_outage
from tablebell.outbox import Failure, Level, OutboxTable, bury_alone
from tablebell.people import Channel
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

LINGER_SECONDS = 0.02
RETRY_SECONDS = 0.2
LARGEST_BATCH = 500
NO_PAUSE = timedelta(0)

ChannelRecord = tuple[Channel, AttemptRecord]


class Recorder:
    def __init__(self, pool: Pool, marks: MarkLimit) -> None:
        self._pool = pool
        self._marks = marks
        self._outbox = OutboxTable(Level.CHANNEL_SEND)
        self._queue: list[ChannelRecord] = []
        self._writing: Sequence[ChannelRecord] = ()
        self._wakeups: dict[Channel, Callable[[], None]] = {}
        self._capacity_callbacks: dict[Channel, Callable[[], None]] = {}
        self._unrecorded: Counter[Channel] = Counter()
        self._arrived = asyncio.Event()
        self._finishing = asyncio.Event()
        self.interrupted = False

    def on_unblocked(self, channel: Channel, wake: Callable[[], None]) -> None:
        """Registers `wake`, which is called when a recorded result unblocks a later row of this channel."""
        self._wakeups[channel] = wake

    def on_recorded(self, channel: Channel, callback: Callable[[], None]) -> None:
        """Registers `callback`, which is called when results of this channel have been written."""
        self._capacity_callbacks[channel] = callback

    @property
    def unrecorded(self) -> list[Delivery]:
        """Deliveries with a result that waits to be written. A statement in progress has locked its rows itself."""
        interrupted = self._writing if self.interrupted else ()
        return [record.delivery for _, record in (*interrupted, *self._queue)]

    def count_unrecorded(self, channel: Channel) -> int:
        return self._unrecorded[channel]

    def add(self, channel: Channel, record: AttemptRecord) -> None:
        self._queue.append((channel, record))
        self._unrecorded[channel] += 1
        self._arrived.set()

    def finish(self) -> None:
        """No more records follow: `run` ends when all are written."""
        self._finishing.set()
        self._arrived.set()

    async def run(self) -> None:
        while self._queue or not self._finishing.is_set():
            await self._arrived.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._finishing.wait()
            if not self._finishing.is_set():
                self._arrived.clear()
            while self._queue:
                # Sorted by id: concurrent writers lock rows in the same order, so they cannot deadlock.
                self._writing = sorted(self._queue[:LARGEST_BATCH], key=lambda each: each[1].delivery.id)
                del self._queue[:LARGEST_BATCH]
                await self._write(self._writing)
                self._release(self._writing)
                self._writing = ()

    def _release(self, batch: Sequence[ChannelRecord]) -> None:
        written = Counter(channel for channel, _ in batch)
        self._unrecorded -= written
        for channel in written:
            if channel in self._capacity_callbacks:
                self._capacity_callbacks[channel]()

    async def _write(self, batch: Sequence[ChannelRecord]) -> None:
        withheld, results = await self._record(batch)
        counts: Counter[tuple[str, str]] = Counter()
        for channel, record in batch:
            recorded = results.get(record.delivery.id)
            if recorded is None:
                row_id = record.delivery.id
                log.warning("lease_lost", channel=channel, channel_send_id=row_id, result=record.result)
            counts[channel, (recorded.result if recorded else "lost").lower()] += 1
            if record.address_is_dead:
                effect = "withheld" if record.delivery.id in withheld else "silences"
                MARKS.labels(channel, effect).inc()
            if recorded and recorded.unblocks and channel in self._wakeups:
                self._wakeups[channel]()
        for labels, count in counts.items():
            OUTCOMES.labels(*labels).inc(count)

    async def _record(self, batch: Sequence[ChannelRecord]) -> tuple[set[int], dict[int, store.Recorded]]:
        """The rows with withheld marks, and the recorded results by id; rows with a lost lease are missing."""
        records = [record for _, record in batch]
        while True:
            try:
                withheld = await self._marks.withheld(batch)
                recorded = await self._record_or_isolate(records, withheld)
            except OUTAGES as outage:
                self.interrupted = True
                log.warning("record_interrupted", rows=len(batch), error=describe(outage))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.interrupted = False
                return withheld, recorded

    async def _record_or_isolate(
        self, records: Sequence[AttemptRecord], withheld: Collection[int]
    ) -> dict[int, store.Recorded]:
        try:
            return await store.record_if_leased(self._pool, records, withheld)
        except Exception as error:
            raise_if_outage(error)
            log.exception("record_failed", rows=len(records))
            if len(records) == 1:
                return await self._bury(records[0], error)
        recorded: dict[int, store.Recorded] = {}
        for record in records:
            recorded |= await self._record_or_isolate([record], withheld)
        return recorded

    async def _bury(self, record: AttemptRecord, error: Exception) -> dict[int, store.Recorded]:
        """The reason includes the result: requeueing a row that was sent sends it twice."""
        reason = f"could not be recorded as {record.result}: {describe(error)}"
        failure = Failure(record.delivery.id, reason, NO_PAUSE)
        buried = await bury_alone(self._outbox, self._pool, failure, token=record.delivery.token)
        return {failure.id: store.Recorded("UNDELIVERABLE", unblocks=True)} if buried else {}
