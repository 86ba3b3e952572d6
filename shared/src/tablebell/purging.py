"""Deleting what is past its retention, in every service: in bounded bites, with a pause after each.

The pause is a multiple of the time that the bite took, so that purging takes a small share of the database's time, and
makes progress however busy the service is. A purge that fails ends nothing: what is left over is tried again at the
next interval.
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
"""A service that has just started has better things to do; one that is restarted often still has to purge."""
SHORTEST_PAUSE = 0.1
PAUSE_PER_SECOND = 4.0
"""A fifth of the time at most is spent on bites."""


async def keep_purging(
    name: str,
    bite: Callable[[], Awaitable[bool]],
    every_seconds: float,
    stop: Stop,
    first_after: float = FIRST_AFTER_SECONDS,
) -> None:
    """`bite` deletes a bounded number of rows and says whether there may be more."""
    await stop.sleep(min(every_seconds, first_after))

    async def bite_and_pause() -> bool:
        began = time.monotonic()
        try:
            more = await bite()
        except OUTAGES:
            raise
        except Exception:
            log.exception("purge_failed", worker=name)
            return False
        if more:
            await stop.sleep(max(SHORTEST_PAUSE, PAUSE_PER_SECOND * (time.monotonic() - began)))
        return more

    await keep_running(name, bite_and_pause, Wakeup(), every_seconds, stop)
