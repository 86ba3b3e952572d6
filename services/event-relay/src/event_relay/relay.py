"""The loop: claims what is due in our partitions, and has it delivered while it claims the next.

A wake-up means a claim. Without one, an idle relay asks one question per poll; the answer also tells when the next
planned event or retry will be due, so that it leaves in time.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta

import structlog

from event_relay import store
from event_relay.claim_cursor import ClaimCursor
from event_relay.ordered_publisher import OrderedPublisher
from event_relay.recorder import Recorder
from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outage import raise_if_outage
from tablebell.outbox import Batch, OutboxQueue, Position, claim_one_by_one
from tablebell.partitions import Partitions
from tablebell.postgres import Pool
from tablebell.rabbit import Broker
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

LOOK_AGAIN_SECONDS = 0.5
"""A wake-up may mean that something was planned: how soon after it the plans are looked at."""
LONGEST_PAUSE = 5.0


class Relay:
    """At most two batches are in flight: one on its way to the broker while the next is claimed."""

    def __init__(
        self,
        *,
        pool: Pool,
        outbox: OutboxQueue,
        broker: Broker,
        publisher: OrderedPublisher,
        recorder: Recorder,
        partitions: Partitions,
        wakeup: Wakeup,
        batch_size: int,
        lease: timedelta,
        poll_seconds: float,
    ) -> None:
        self._pool = pool
        self._outbox = outbox
        self._broker = broker
        self._courier = publisher
        self._ledger = recorder
        self._partitions = partitions
        self._wakeup = wakeup
        self._batch_size = batch_size
        self._lease = lease
        self._poll_seconds = poll_seconds

        self._deliveries = asyncio.TaskGroup()
        self._landing = asyncio.Event()
        self._sweep = ClaimCursor()
        self._swept: frozenset[int] = frozenset()
        # On the monotonic clock.
        self._sweep_at = 0.0
        self._look_at = 0.0
        self._resume_at = 0.0
        self._outages = 0
        self.in_flight = 0

    @property
    def busy(self) -> bool:
        return self.in_flight > 0

    async def run(self, stop: Stop) -> None:
        """Returns when what was in flight at the stop has its outcome."""
        async with self._deliveries:
            await keep_running("relay", self.run_once, self._wakeup, self._patience, stop)

    async def run_once(self) -> bool:
        """Claim a batch and see it on its way; whether there may be more to claim at once."""
        if not await self._broker_is_there():
            return True
        await self._room()
        with ExitStack() as use:
            owned = use.enter_context(self._partitions.use())
            if not await self._is_due(owned):
                return False
            overlaps = self.busy
            claimed_at = time.monotonic()
            after = self._sweep.begin_claim()
            batch = await self._claim(sorted(owned), after)
            unblocked = self._sweep.end_claim(batch)
            if batch.rows:
                self.in_flight += len(batch.rows)
                self._deliveries.create_task(self._deliver(batch, claimed_at, use.pop_all()), name="delivery")
            # What is held back may wait for what is in flight: to go on now would be to look at the same rows in vain.
            return unblocked or (batch.more and (bool(batch.rows) or not overlaps))

    async def _claim(self, partitions: Sequence[int], after: Position) -> Batch:
        token = self._courier.token
        try:
            return await self._outbox.claim(
                self._pool, partitions, limit=self._batch_size, lease=self._lease, after=after, token=token
            )
        except Exception as error:
            raise_if_outage(error)
            log.exception("claim_failed")
        async with self._pool.acquire() as connection:
            return await claim_one_by_one(
                self._outbox,
                connection,
                partitions,
                limit=self._batch_size,
                lease=self._lease,
                after=after,
                token=token,
            )

    async def _broker_is_there(self) -> bool:
        pause = self._resume_at - time.monotonic()
        if pause > 0:
            await asyncio.sleep(min(pause, 1.0))
            return False
        return await self._broker.wait_connected(1.0)

    async def _room(self) -> None:
        while self.in_flight > self._batch_size:
            self._landing.clear()
            await self._landing.wait()

    async def _is_due(self, owned: frozenset[int]) -> bool:
        """A wake-up means yes; at the poll, or when something planned should be due, the table is asked."""
        now = time.monotonic()
        if not owned <= self._swept:
            self._sweep.restart()
        self._swept = owned
        if owned and now < min(self._look_at, self._sweep_at):
            self._look_at = min(self._look_at, now + LOOK_AGAIN_SECONDS)
            return True
        if now >= self._sweep_at:
            self._sweep.restart()
            self._sweep_at = now + self._poll_seconds
        self._look_at = self._sweep_at
        if not owned:
            return False
        outlook = await store.look_ahead(self._pool, sorted(owned), self._sweep.after)
        if outlook.next_in is not None:
            self._look_at = min(self._look_at, now + outlook.next_in)
        return outlook.due

    def _patience(self) -> float:
        return max(0.001, min(self._look_at, self._sweep_at) - time.monotonic())

    async def _deliver(self, batch: Batch, claimed_at: float, use: ExitStack) -> None:
        try:
            with use:
                report = await self._courier.deliver(batch, claimed_at)
                await self._ledger.record(batch, report, until=claimed_at + self._lease.total_seconds())
        finally:
            self.in_flight -= len(batch.rows)
            self._landing.set()
        self._note_outage(report.outage)
        if self._sweep.land(batch.rows, all_done=len(report.confirmed) == len(batch.rows)) or batch.more:
            self._wakeup.now()

    def _note_outage(self, outage: str | None) -> None:
        """A broker that is connected and takes nothing is given some time."""
        if outage is None:
            self._outages = 0
        else:
            self._outages += 1
            self._resume_at = time.monotonic() + min(LONGEST_PAUSE, 0.1 * 2 ** min(self._outages, 10))
