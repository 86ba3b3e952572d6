"""Health: live = the process answers; ready = all its dependencies answer, and no stop is requested.

Every report also sets a gauge per dependency, and a scrape makes a report. So an alert names the dependency that is
unavailable, and the service that needs it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from prometheus_client import Gauge

from tablebell.lifecycle import Stop
from tablebell.outage import describe

Check = Callable[[], Awaitable[None]]

CHECK_SECONDS = 2.0

UP = Gauge("service_dependency_up", "1 if the dependency passed its last check.", ["dependency"])


@dataclass
class Health:
    """Checks by name. A check raises if its dependency is unavailable."""

    stop: Stop
    checks: dict[str, Check] = field(default_factory=dict)

    async def report(self) -> dict[str, str]:
        """The failed checks with their errors; empty when ready."""
        if self.stop.requested:
            return {"service": "stopping"}
        failures = await asyncio.gather(*(self._failure(check) for check in self.checks.values()))
        found = dict(zip(self.checks, failures, strict=True))
        for name, failure in found.items():
            UP.labels(name).set(failure is None)
        return {name: failure for name, failure in found.items() if failure}

    async def _failure(self, check: Check) -> str | None:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await check()
        except Exception as error:  # noqa: BLE001 - any exception of a check is its result
            return describe(error)
        return None
