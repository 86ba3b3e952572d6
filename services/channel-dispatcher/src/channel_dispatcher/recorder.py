"""Writes down what became of the attempts, many at once.

Writing is the dearest part of sending, and a batch costs hardly more than a row: what is finished within a few
milliseconds goes out in one statement. While the database is away the results wait here (`interrupted`), and nothing
new is claimed until they are written. A row is recorded under its token, even if its lease has ended meanwhile: as long
as nobody else has claimed it, the token is still the row's own.

If the database refuses the statement because of a row, the rows are written one by one, and the row that is refused
alone is buried with the reason.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import structlog

from channel_dispatcher import store
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.marks import MarkLimit
from channel_dispatcher.metrics import MARKS, OUTCOMES
from channel_dispatcher.settlement import Settlement
from tablebell.outage import OUTAGES, describe, raise_if_outage
from tablebell.outbox import Failure, Level, OutboxTable, bury_alone
from tablebell.people import Channel
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

LINGER_SECONDS = 0.02
RETRY_SECONDS = 0.2
LARGEST_BATCH = 500
NO_PAUSE = timedelta(0)


class Recorder:
    def __init__(self, pool: Pool, marks: MarkLimit) -> None:
        self._pool = pool
        self._marks = marks
        self._outbox = OutboxTable(Level.CHANNEL_SEND)
        self._waiting: list[tuple[Channel, Settlement]] = []
        self._writing: Sequence[tuple[Channel, Settlement]] = ()
        self._wake: dict[Channel, Callable[[], None]] = {}
        self._arrived = asyncio.Event()
        self._finishing = asyncio.Event()
        self.interrupted = False

    def on_unblocked(self, channel: Channel, wake: Callable[[], None]) -> None:
        """Call `wake` when a recorded outcome lets a row of this channel go on that waited for it."""
        self._wake[channel] = wake

    @property
    def unrecorded(self) -> list[Delivery]:
        """Deliveries whose result is not written yet."""
        return [settlement.delivery for _, settlement in (*self._writing, *self._waiting)]

    def add(self, channel: Channel, settlement: Settlement) -> None:
        self._waiting.append((channel, settlement))
        self._arrived.set()

    def finish(self) -> None:
        """Nothing more will be added: `run` ends when everything is written."""
        self._finishing.set()
        self._arrived.set()

    async def run(self) -> None:
        while self._waiting or not self._finishing.is_set():
            await self._arrived.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    await self._finishing.wait()
            if not self._finishing.is_set():
                self._arrived.clear()
            while self._waiting:
                # In one order everywhere, so that two writers wait for each other rather than for ever.
                self._writing = sorted(self._waiting[:LARGEST_BATCH], key=lambda each: each[1].delivery.id)
                del self._waiting[:LARGEST_BATCH]
                await self._write(self._writing)
                self._writing = ()

    async def _write(self, batch: Sequence[tuple[Channel, Settlement]]) -> None:
        withheld, results = await self._record(batch)
        told: Counter[tuple[str, str]] = Counter()
        for channel, settlement in batch:
            recorded = results.get(settlement.delivery.id)
            if recorded is None:
                row_id = settlement.delivery.id
                log.warning("lease_lost", channel=channel, channel_send_id=row_id, result=settlement.result)
            told[channel, (recorded.result if recorded else "lost").lower()] += 1
            if settlement.address_is_dead:
                effect = "withheld" if settlement.delivery.id in withheld else "silences"
                MARKS.labels(channel, effect).inc()
            if recorded and recorded.unblocks and channel in self._wake:
                self._wake[channel]()
        for labels, count in told.items():
            OUTCOMES.labels(*labels).inc(count)

    async def _record(self, batch: Sequence[tuple[Channel, Settlement]]) -> tuple[set[int], dict[int, store.Recorded]]:
        """The rows whose marks silence nobody, and what was recorded by id; rows whose lease was lost are missing."""
        settlements = [settlement for _, settlement in batch]
        while True:
            try:
                withheld = await self._marks.withheld(batch)
                recorded = await self._record_or_isolate(settlements, withheld)
            except OUTAGES as outage:
                self.interrupted = True
                log.warning("record_interrupted", rows=len(batch), error=describe(outage))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.interrupted = False
                return withheld, recorded

    async def _record_or_isolate(
        self, settlements: Sequence[Settlement], withheld: Collection[int]
    ) -> dict[int, store.Recorded]:
        try:
            return await store.record_if_leased(self._pool, settlements, withheld)
        except Exception as error:
            raise_if_outage(error)
            log.exception("record_failed", rows=len(settlements))
            if len(settlements) == 1:
                return await self._bury(settlements[0], error)
        recorded: dict[int, store.Recorded] = {}
        for settlement in settlements:
            recorded |= await self._record_or_isolate([settlement], withheld)
        return recorded

    async def _bury(self, settlement: Settlement, error: Exception) -> dict[int, store.Recorded]:
        """The reason says what became of the attempt: whoever requeues a row that was sent sends it twice."""
        reason = f"could not be recorded as {settlement.result}: {describe(error)}"
        failure = Failure(settlement.delivery.id, reason, NO_PAUSE)
        buried = await bury_alone(self._outbox, self._pool, failure, token=settlement.delivery.token)
        return {failure.id: store.Recorded("UNDELIVERABLE", unblocks=True)} if buried else {}
