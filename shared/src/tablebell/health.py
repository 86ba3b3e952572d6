"""Health: live = the process answers; ready = everything it needs answers, and it is not about to stop.

Each look is told to Prometheus too: a scrape is one, so that an alert can say what is away and from where.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from prometheus_client import Gauge

from tablebell.lifecycle import Stop
from tablebell.outage import describe

Check = Callable[[], Awaitable[None]]

CHECK_SECONDS = 2.0

UP = Gauge("service_dependency_up", "1 if what the service needs answered when last looked at.", ["dependency"])


@dataclass
class Health:
    """Checks by name. A check raises when what it looks at is not well."""

    stop: Stop
    checks: dict[str, Check] = field(default_factory=dict)

    async def report(self) -> dict[str, str]:
        """What is not well, by name; empty when ready."""
        if self.stop.requested:
            return {"service": "stopping"}
        complaints = await asyncio.gather(*(self._complaint(check) for check in self.checks.values()))
        found = dict(zip(self.checks, complaints, strict=True))
        for name, complaint in found.items():
            UP.labels(name).set(complaint is None)
        return {name: complaint for name, complaint in found.items() if complaint}

    async def _complaint(self, check: Check) -> str | None:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await check()
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its answer
            return describe(error)
        return None
