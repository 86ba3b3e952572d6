"""One way to start and one way to stop.

SIGTERM or SIGINT asks for a stop: workers claim nothing more and finish what they hold, within `drain_seconds`. What is
not finished by then is abandoned to its lease. The exit code is 0 for a stop that was asked for, 1 for anything else.
"""

import asyncio
import contextlib
import gc
import signal
from collections.abc import Awaitable, Callable

import structlog
import uvloop

log = structlog.get_logger(__name__)


class Stop:
    """Set once, never cleared: the wish to stop, which every loop looks at."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()

    async def sleep(self, seconds: float) -> None:
        """Sleep, or less if a stop is asked for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()


Service = Callable[[Stop], Awaitable[None]]


def run(service: Service, drain_seconds: float) -> int:
    """Run `service` until it returns, dies or has been stopped; returns the exit code."""
    # What was imported stays: looking through it for garbage would halt everybody for tens of milliseconds each time.
    gc.collect()
    gc.freeze()
    return uvloop.run(supervise(service, drain_seconds))


async def supervise(service: Service, drain_seconds: float) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.request)

    log.info("service_started")
    work = asyncio.ensure_future(service(stop))
    asked = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        log.info("service_draining", seconds=drain_seconds)
        await asyncio.wait({work}, timeout=drain_seconds)
    drained = work.done()
    if not drained:
        work.cancel()
    result = (await asyncio.gather(work, return_exceptions=True))[0]
    asked.cancel()

    if isinstance(result, Exception):
        log.critical("service_died", exc_info=result)
        return 1
    if not stop.requested:
        log.critical("service_ended_unasked")
        return 1
    log.info("service_stopped", drained=drained)
    return 0
