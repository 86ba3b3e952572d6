"""Renews the leases of what is in hand, so that a slow provider's message is not sent by somebody else as well."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import structlog

from channel_dispatcher import store
from channel_dispatcher.dispatcher import Dispatcher
from tablebell.outage import OUTAGES, describe
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)


class LeaseKeeper:
    def __init__(self, pool: Pool, dispatchers: Sequence[Dispatcher], lease: timedelta) -> None:
        self._pool = pool
        self._dispatchers = dispatchers
        self._lease = lease

    async def run(self) -> None:
        """Until it is cancelled: leases are needed for as long as anything is in hand, a stop or not."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            try:
                await self.run_once()
            except OUTAGES as outage:
                log.warning("leases_not_renewed", error=describe(outage))

    async def run_once(self) -> None:
        held = sorted((row for each in self._dispatchers for row in each.in_hand), key=lambda row: row.id)
        if not held:
            return
        ours = await store.extend_if_leased(self._pool, held, self._lease)
        lost = [row for row in held if row.id not in ours]
        for dispatcher in self._dispatchers:
            dispatcher.forget(lost)
