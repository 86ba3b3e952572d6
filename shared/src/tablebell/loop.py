"""The loop around every `run_once`: repeat while there is more to do, else wait for a wake-up, a stop or the poll.

An outage is waited out with a growing pause. Any other exception ends the service.
"""

from collections.abc import Awaitable, Callable

import structlog

from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe
from tablebell.retry import Backoff
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)


async def keep_running(
    name: str,
    run_once: Callable[[], Awaitable[bool]],
    wakeup: Wakeup,
    poll_seconds: float | Callable[[], float],
    stop: Stop,
) -> None:
    """Call `run_once` until a stop. It handles one batch and returns whether there may be more to do.

    `poll_seconds` is a function if the next wait depends on the last result.
    """
    backoff = Backoff()
    while not stop.requested:
        try:
            more = await run_once()
        except OUTAGES as outage:
            pause = backoff.next()
            log.warning("work_interrupted", worker=name, error=describe(outage), retry_in=pause)
            await stop.sleep(pause)
            continue
        backoff.reset()
        if not more:
            await wakeup.wait(poll_seconds() if callable(poll_seconds) else poll_seconds, stop)
