"""The system under test: a separate instance with two replicas of every service."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tablebell_local.instance import Instance
from tablebell_local.process import bring_up
from tablebell_local.service import Service
from tablebell_local.stack import run_all
from tablebell_local.system import System
from tablebell_tools.tokens import TokenIssuer
from tablebell_tools.unlimited import UNLIMITED

SCALE = {
    "reservation-api": 2,
    "ws-gateway": 2,
    "event-relay": 2,
    "notification-fanout": 2,
    "channel-dispatcher": 2,
}
# Shorter than in production, so that a worker can be stopped beyond its lease within a run.
SETTINGS = {"LEASE_SECONDS": "8"}
SANDBOX = "sandbox"  # replaces the providers: it fails only on request, and records every message


class ChaosEnvironment:
    def __init__(self, system: System, overrides: Mapping[str, str]) -> None:
        self.stack = system.stack
        self.lease_seconds = float(overrides["LEASE_SECONDS"])
        self.services = [each for each in system.services(SCALE, overrides) if each.name != SANDBOX]
        self.database_url = system.stack.replication.url()
        self.tokens = TokenIssuer(system.signing_key)
        self.sandbox_url = f"http://127.0.0.1:{system.port(SANDBOX)}"
        self.api_urls = [each.url for each in self._replicas("reservation-api")]
        self.gateway_urls = [each.url.replace("http:", "ws:", 1) for each in self._replicas("ws-gateway")]

    def _replicas(self, name: str) -> list[Service]:
        return [each for each in self.services if each.name in {name, f"{name}-2"}]

    async def restore(self) -> None:
        """Starts everything that is not healthy."""
        await self.stack.servers_up()
        await run_all(*(bring_up(service) for service in self.services))


@asynccontextmanager
async def open_environment(
    instance: Instance, settings: Mapping[str, str], *, attach: bool
) -> AsyncIterator[ChaosEnvironment]:
    """Starts a new instance and stops it at the end, keeping its logs and data; or attaches to a running one."""
    overrides = {**UNLIMITED, **SETTINGS, **settings}
    system = System(instance)
    async with instance.locked():
        if not attach:
            await system.stack.down()
            system.stack.remove_data()
            instance.add_standby()
        await system.start(SCALE, overrides)
        try:
            yield ChaosEnvironment(system, overrides)
        finally:
            if not attach:
                await system.stack.down()
