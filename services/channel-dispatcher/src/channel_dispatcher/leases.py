"""Extends the leases of rows in flight, so that no other process sends the message of a slow provider again.

Results that wait in the recorder keep their leases too: until they are written, their rows look unsent. After an outage
of the database the leases are extended at once.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta

import structlog

from channel_dispatcher import store
from channel_dispatcher.delivery import lease_end
from channel_dispatcher.dispatcher import Dispatcher
from channel_dispatcher.recorder import RETRY_SECONDS, Recorder
from tablebell.outage import OUTAGES, describe
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)


class LeaseKeeper:
    def __init__(self, pool: Pool, dispatchers: Sequence[Dispatcher], recorder: Recorder, lease: timedelta) -> None:
        self._pool = pool
        self._dispatchers = dispatchers
        self._recorder = recorder
        self._lease = lease

    async def run(self) -> None:
        """Runs until cancelled: rows in flight need their leases during a stop, too."""
        pause = self._lease.total_seconds() / 3
        while True:
            await asyncio.sleep(pause)
            try:
                await self.run_once()
                pause = self._lease.total_seconds() / 3
            except OUTAGES as outage:
                pause = RETRY_SECONDS
                log.warning("leases_not_renewed", error=describe(outage))

    async def run_once(self) -> None:
        in_flight = [delivery for each in self._dispatchers for delivery in each.in_flight]
        leased = sorted([*in_flight, *self._recorder.unrecorded], key=lambda delivery: delivery.id)
        if not leased:
            return
        extended_at = time.monotonic()
        extended = await store.extend_if_leased(self._pool, leased, self._lease)
        for dispatcher in self._dispatchers:
            dispatcher.on_leases_extended(in_flight, extended, lease_end(extended_at, self._lease))
