"""The system that is put under load and faults: an instance of its own with two of everything that may be doubled."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tablebell_local.instance import Instance
from tablebell_local.process import bring_up
from tablebell_local.progress import Progress
from tablebell_local.service import Service
from tablebell_local.stack import together
from tablebell_local.system import System
from tablebell_tools.unlimited import UNLIMITED

SCALE = {
    "reservation-api": 2,
    "ws-gateway": 2,
    "event-relay": 2,
    "notification-fanout": 2,
    "channel-dispatcher": 2,
}
# Shorter than in operation, so that a worker can stand still beyond its lease within a run.
SETTINGS = {"LEASE_SECONDS": "8"}
OUTSIDE = "sandbox"  # stands for the providers: it fails on request only, and remembers what came


class ChaosEnvironment:
    def __init__(self, system: System, overrides: Mapping[str, str]) -> None:
        self.stack = system.stack
        self.lease_seconds = float(overrides["LEASE_SECONDS"])
        self.services = [each for each in system.services(SCALE, overrides) if each.name != OUTSIDE]
        self.database_url = system.stack.replication.url()
        self.jwt_secret = system.secret("JWT_SECRET")
        self.sandbox_url = f"http://127.0.0.1:{system.port(OUTSIDE)}"
        self.api_urls = [each.url for each in self._replicas("reservation-api")]
        self.gateway_urls = [each.url.replace("http:", "ws:", 1) for each in self._replicas("ws-gateway")]

    def _replicas(self, name: str) -> list[Service]:
        return [each for each in self.services if each.name in {name, f"{name}-2"}]

    async def mend(self) -> None:
        """Everything up and healthy again."""
        with Progress() as board:
            await self.stack.servers_up(board)
            await together(*(bring_up(service, board) for service in self.services))


@asynccontextmanager
async def open_environment(
    instance: Instance, settings: Mapping[str, str], *, attach: bool
) -> AsyncIterator[ChaosEnvironment]:
    """A fresh instance, ended in the end with its logs and data left to look at; or one that runs, and goes on."""
    overrides = {**UNLIMITED, **SETTINGS, **settings}
    system = System(instance)
    async with instance.locked():
        system.stack.programs.ensure()
        with Progress() as board:
            if not attach:
                await system.stack.down(board)
                system.stack.forget()
                instance.add_standby()
            await system.up(board, SCALE, (), overrides)
        try:
            yield ChaosEnvironment(system, overrides)
        finally:
            if not attach:
                with Progress() as board:
                    await system.stack.down(board)
