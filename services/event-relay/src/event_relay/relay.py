"""The relay's loop: claim a batch of due events, publish them in order, record the outcomes, claim the next batch.

`ClaimSchedule` decides when to claim and from which position; `OrderedPublisher` keeps the order of an aggregate's
events. A batch is published and recorded in a task of its own, while the loop claims the next one.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta

import structlog

from event_relay import store
from event_relay.claim_schedule import ClaimSchedule
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


class Relay:
    """At most two full batches are in flight."""

    def __init__(
        self,
        *,
        pool: Pool,
        outbox: OutboxQueue,
        broker: Broker,
        ordered_publisher: OrderedPublisher,
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
        self._ordered_publisher = ordered_publisher
        self._recorder = recorder
        self._partitions = partitions
        self._wakeup = wakeup
        self._batch_size = batch_size
        self._lease = lease
        self._schedule = ClaimSchedule(poll_seconds)
        self._batches = asyncio.TaskGroup()
        self._batch_settled = asyncio.Event()
        self.in_flight = 0

    async def run(self, stop: Stop) -> None:
        """After a stop, returns when every event in flight has its outcome."""
        async with self._batches:
            await keep_running("relay", self.run_once, self._wakeup, lambda: self._schedule.wait_seconds, stop)

    async def run_once(self) -> bool:
        """Claim a batch and start to publish it. Returns whether to run again at once."""
        if not await self._broker_accepts_messages():
            return True
        await self._wait_for_capacity()
        with ExitStack() as partitions_in_use:
            owned = partitions_in_use.enter_context(self._partitions.use())
            self._schedule.set_partitions(owned)
            if not await self._may_be_due(sorted(owned)):
                return False
            others_in_flight = self.in_flight > 0
            claimed_at = time.monotonic()
            batch = await self._claim(sorted(owned), after=self._schedule.begin_claim())
            unblocked = self._schedule.end_claim(batch)
            if batch.rows:
                self.in_flight += len(batch.rows)
                self._batches.create_task(self._process(batch, claimed_at, partitions_in_use.pop_all()), name="batch")
            # If everything found is blocked by events in flight, another claim now would find the same rows.
            return unblocked or (batch.more and (bool(batch.rows) or not others_in_flight))

    async def _broker_accepts_messages(self) -> bool:
        pause = self._schedule.pause_seconds
        if pause > 0:
            await asyncio.sleep(min(pause, 1.0))
            return False
        return await self._broker.wait_connected(1.0)

    async def _wait_for_capacity(self) -> None:
        while self.in_flight > self._batch_size:
            self._batch_settled.clear()
            await self._batch_settled.wait()

    async def _may_be_due(self, partitions: Sequence[int]) -> bool:
        if not self._schedule.needs_check():
            return True
        after = self._schedule.begin_check()
        if not partitions:
            return False
        found = await store.find_next_due(self._pool, partitions, after)
        self._schedule.end_check(found)
        return found.is_due

    async def _claim(self, partitions: Sequence[int], after: Position) -> Batch:
        token, limit, lease = self._ordered_publisher.claim_token, self._batch_size, self._lease
        try:
            return await self._outbox.claim(self._pool, partitions, limit=limit, lease=lease, after=after, token=token)
        except Exception as error:
            raise_if_outage(error)
            log.exception("claim_failed")
        async with self._pool.acquire() as connection:
            return await claim_one_by_one(
                self._outbox, connection, partitions, limit=limit, lease=lease, after=after, token=token
            )

    async def _process(self, batch: Batch, claimed_at: float, partitions_in_use: ExitStack) -> None:
        """Publish and record the batch. Its partitions are not handed over before that is done."""
        try:
            with partitions_in_use:
                result = await self._ordered_publisher.publish_batch(batch, claimed_at)
                await self._recorder.record(batch, result, lease_end=claimed_at + self._lease.total_seconds())
        finally:
            self.in_flight -= len(batch.rows)
            self._batch_settled.set()
        if self._schedule.settle(batch, result):
            self._wakeup.now()
