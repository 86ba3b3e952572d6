"""The purge loop of every service: delete rows past their retention in bounded batches, with a pause after each.

The pause is a multiple of the time that the batch took, so that purging takes a small share of the database's time and
makes progress under any load. A purge that fails does not end the service; it is repeated at the next interval.
"""

import time
from collections.abc import Awaitable, Callable

import structlog

from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outage import OUTAGES
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

FIRST_AFTER_SECONDS = 60.0
"""Delays the first purge after a start. It is short, so that a service that restarts often still purges."""
SHORTEST_PAUSE = 0.1
PAUSE_PER_SECOND = 4.0
"""At most a fifth of the time is spent on purging."""


async def keep_purging(
    name: str,
    purge_batch: Callable[[], Awaitable[bool]],
    every_seconds: float,
    stop: Stop,
    first_after: float = FIRST_AFTER_SECONDS,
) -> None:
    """`purge_batch` deletes a bounded number of rows and returns whether there may be more."""
    await stop.sleep(min(every_seconds, first_after))

    async def purge_and_pause() -> bool:
        began = time.monotonic()
        try:
            more = await purge_batch()
        except OUTAGES:
            raise
        except Exception:
            log.exception("purge_failed", worker=name)
            return False
        if more:
            await stop.sleep(max(SHORTEST_PAUSE, PAUSE_PER_SECOND * (time.monotonic() - began)))
        return more

    await keep_running(name, purge_and_pause, Wakeup(), every_seconds, stop)
