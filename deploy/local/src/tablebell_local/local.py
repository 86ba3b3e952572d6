"""The system as local processes."""

import asyncio
from collections.abc import Collection, Mapping
from pathlib import Path

from rich.console import Console

from tablebell_local import logfiles, status
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.progress import Progress
from tablebell_local.shared_servers import start_servers, stop_everything
from tablebell_local.system import System


class Local:
    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._system = System(instance)

    def up(self, scale: Mapping[str, int], only: Collection[str], overrides: Mapping[str, str]) -> None:
        async def run() -> None:
            async with self._instance.locked():
                self._system.stack.programs.ensure()
                with Progress() as progress:
                    await self._system.up(progress, scale, only, overrides)

        asyncio.run(run())

    def servers(self) -> None:
        asyncio.run(start_servers(self._system.stack, keep=True))

    def down(self) -> None:
        if self._instance.directory.exists():
            asyncio.run(stop_everything(self._system.stack))

    def status(self) -> bool:
        """Prints the state of every process, and returns whether all are healthy."""
        lines = asyncio.run(status.inspect(self._system.processes()))
        status.show(lines, Console(highlight=False))
        return all(line.state == "healthy" for line in lines)

    def logs(self, name: str | None, count: int, *, follow: bool) -> None:
        paths = self._logs(name)
        logfiles.show(paths, count)
        if follow:
            logfiles.follow(paths)

    def addresses(self) -> dict[str, str]:
        system = self._system
        stopped = [process.name for process in system.processes() if not process.pids()]
        if stopped:
            raise CommandError(f"the system is not up: {', '.join(stopped)} not running. Start it with `make up`")
        return {
            "DATABASE_URL": system.stack.replication.url(),
            "AMQP_URL": system.stack.rabbitmq.url_of(),
            "API_URL": f"http://127.0.0.1:{system.port('reservation-api')}",
            "WS_URL": f"ws://127.0.0.1:{system.port('ws-gateway')}",
            "SANDBOX_URL": f"http://127.0.0.1:{system.port('sandbox')}",
        }

    def database_url(self) -> str:
        """Works also while a service is down."""
        if not self._system.stack.replication.primary.pids():
            raise CommandError("PostgreSQL is not running: start it with `make up`")
        return self._system.stack.replication.url()

    def amqp_url(self) -> str:
        if not self._system.stack.rabbitmq.pids():
            raise CommandError("RabbitMQ is not running: start it with `make up`")
        return self._system.stack.rabbitmq.url_of()

    def signing_key(self) -> Path:
        if not self._instance.signing_key.exists():
            raise CommandError("there is no key for tokens yet: start the system once with `make up`")
        return self._instance.signing_key

    def migrate(self) -> None:
        async def run() -> None:
            async with self._instance.locked():
                with Progress() as progress:
                    await self._system.migrate(progress)

        if not self._system.stack.replication.primary.pids():
            raise CommandError("PostgreSQL is not running: start it with `make up`")
        asyncio.run(run())

    def _logs(self, name: str | None) -> list[Path]:
        existing = sorted(self._instance.path("logs").glob("*.log"))
        if name is None:
            return existing
        chosen = [path for path in existing if path.stem == name]
        if not chosen:
            names = ", ".join(path.stem for path in existing) or "none"
            raise CommandError(f"there is no log “{name}”; available: {names}")
        return chosen
