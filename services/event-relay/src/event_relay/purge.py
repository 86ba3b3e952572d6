"""Deletes published events past their retention: one relay at a time, in small bites, while nothing is in flight."""

from datetime import timedelta

import structlog

from event_relay import metrics, store
from event_relay.relay import Relay
from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outbox import Outbox
from tablebell.postgres import Pool
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

BITE = 1000
PAUSE_SECONDS = 0.1


class Purge:
    def __init__(self, pool: Pool, outbox: Outbox, relay: Relay, retention: timedelta) -> None:
        self._pool = pool
        self._outbox = outbox
        self._relay = relay
        self._retention = retention

    async def run(self, every_seconds: float, stop: Stop) -> None:
        await stop.sleep(every_seconds)  # a service that has just started has better things to do

        async def bite_and_pause() -> bool:
            more = await self.run_once()
            await stop.sleep(PAUSE_SECONDS)
            return more

        await keep_running("purge", bite_and_pause, Wakeup(), every_seconds, stop)

    async def run_once(self) -> bool:
        """One bite; whether there may be another. While the relay is busy, that is a yes without a bite."""
        if self._relay.busy:
            return True
        async with self._pool.acquire() as connection, connection.transaction():
            if not await store.lock_purge(connection):
                return False
            purged = await self._outbox.purge(connection, older_than=self._retention, limit=BITE)
        if purged:
            metrics.PURGED.inc(purged)
            log.info("events_purged", events=purged)
        return purged == BITE
