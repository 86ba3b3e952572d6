"""The loop around every `run_once`: again at once while there is more, else wait for a wake-up, a stop or the poll.

An outage (a server behind us is away) is waited out with a growing pause. Any other exception ends the service, loudly.
"""

from collections.abc import Awaitable, Callable

import structlog

from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

LONGEST_PAUSE = 2.0


async def keep_running(
    name: str,
    run_once: Callable[[], Awaitable[bool]],
    wakeup: Wakeup,
    poll_seconds: float | Callable[[], float],
    stop: Stop,
) -> None:
    """`run_once` does one batch and says whether there may be more to do at once.

    `poll_seconds` is a function where the next wait depends on what was found.
    """
    failures = 0
    while not stop.requested:
        try:
            more = await run_once()
        except OUTAGES as outage:
            failures += 1
            pause = min(LONGEST_PAUSE, 0.1 * 2**failures)
            log.warning("work_interrupted", worker=name, error=describe(outage), retry_in=pause)
            await stop.sleep(pause)
            continue
        failures = 0
        if not more:
            await wakeup.wait(poll_seconds() if callable(poll_seconds) else poll_seconds, stop)
