"""Health: live = the process answers; ready = everything it needs answers, and it is not about to stop."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tablebell.lifecycle import Stop
from tablebell.outage import describe

Check = Callable[[], Awaitable[None]]

CHECK_SECONDS = 2.0


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
        return {name: complaint for name, complaint in zip(self.checks, complaints, strict=True) if complaint}

    async def _complaint(self, check: Check) -> str | None:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await check()
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its answer
            return describe(error)
        return None
