"""Start and graceful stop of a service.

SIGTERM or SIGINT requests a stop: workers claim nothing more and finish their current work within `drain_seconds`.
Unfinished work is abandoned, and its leases expire. The exit code is 0 after a requested stop, 1 otherwise.
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
    """The stop request that every loop checks. It is set once and never cleared."""

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
        """Sleep, or return early if a stop is requested."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()


Service = Callable[[Stop], Awaitable[None]]


def run(service: Service, drain_seconds: float) -> int:
    """Run `service` until it returns, fails or is stopped; returns the exit code."""
    # Imported objects are permanent. Scanning them would add pauses of tens of milliseconds to every full collection.
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
    stop_waiter = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait({work, stop_waiter}, return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        log.info("service_draining", seconds=drain_seconds)
        await asyncio.wait({work}, timeout=drain_seconds)
    drained = work.done()
    if not drained:
        work.cancel()
    result = (await asyncio.gather(work, return_exceptions=True))[0]
    stop_waiter.cancel()

    if isinstance(result, Exception):
        log.critical("service_died", exc_info=result)
        return 1
    if not stop.requested:
        log.critical("service_ended_unstop_waiter")
        return 1
    log.info("service_stopped", drained=drained)
    return 0
