"""The servers of an instance: PostgreSQL and RabbitMQ."""

import asyncio
import shutil
import signal
from collections.abc import Coroutine, Sequence

from tablebell_local.credentials import create_signing_key, load_or_create
from tablebell_local.errors import CommandError
from tablebell_local.instance import KEEP, STANDBY, Instance
from tablebell_local.ports import preferred_port
from tablebell_local.postgres import Postgres
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.processes import find, stop
from tablebell_local.programs import ensure_installed
from tablebell_local.progress import say
from tablebell_local.rabbitmq import RabbitMq
from tablebell_local.replication import Replication

STOP_SECONDS = 30.0


class Stack:
    """Callers lock the instance before they call a method that changes something, except the first two."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.postgres = Postgres(instance)
        self.replication = Replication(self.postgres, Postgres(instance, number=2))
        self.rabbitmq = RabbitMq(instance)

    @property
    def servers(self) -> tuple[ManagedProcess, ...]:
        return (*self.replication.servers, self.rabbitmq)

    async def start(self, *, keep: bool = False) -> None:
        async with self.instance.locked():
            if keep:
                self.instance.path(KEEP).touch()
            ensure_installed()
            self.prepare(self.servers)
            await self.servers_up()

    async def stop_everything(self) -> None:
        async with self.instance.locked():
            self.instance.path(KEEP).unlink(missing_ok=True)
            await self.down()

    def prepare(self, processes: Sequence[ManagedProcess]) -> None:
        """Creates the secrets and the signing key, and assigns the ports."""
        self.instance.create()
        self.instance.secrets.update(load_or_create(self.instance.path("secrets.env")))
        create_signing_key(self.instance.signing_key)
        running = {name for process in processes if process.pids() for name in process.preferred_ports}
        preferred = {name: port for process in processes for name, port in process.preferred_ports.items()}
        if not self.instance.is_developers:
            preferred = {name: preferred_port(self.instance.label, name) for name in preferred}
        for moved in self.instance.ports.assign(preferred, running):
            if moved.name not in running and self.instance.is_developers:
                say(moved.name, "moved", f"port {moved.preferred} is in use: it listens on {moved.actual}")

    async def servers_up(self) -> None:
        await run_all(self.replication.up(), bring_up(self.rabbitmq))

    async def down(self) -> None:
        """Stops every process with the instance's mark, also those that another version of the project started."""
        found = {process.name for process in find(self.instance.directory)}
        await run_all(*(self.stop(name) for name in sorted(found - {process.name for process in self.servers})))
        await run_all(*(self._stop(process) for process in self.servers))
        left = [process.pid for process in find(self.instance.directory)]
        left += [pid for server in self.replication.servers for pid in server.pids()]
        if left:
            raise CommandError(f"these processes cannot be stopped: {', '.join(map(str, left))}")
        if self.instance.is_throwaway:
            self.remove_data()

    def remove_data(self) -> None:
        """Removes the servers' data and the request for a standby."""
        for name in ("pgdata", "pgdata-2", "rabbitmq"):
            shutil.rmtree(self.instance.path(name), ignore_errors=True)
        self.instance.path(STANDBY).unlink(missing_ok=True)

    async def stop(self, name: str) -> None:
        def pids() -> list[int]:
            return [process.pid for process in find(self.instance.directory, name)]

        await stop(pids, [(signal.SIGTERM, STOP_SECONDS)])
        say(name, "stopped")

    async def _stop(self, process: ManagedProcess) -> None:
        if process.pids():
            await (process.kill() if self.instance.is_throwaway else process.stop())
            say(process.name, "stopped")


async def run_all(*steps: Coroutine[None, None, None]) -> None:
    """Runs all steps to completion, so that each reports its result; then raises the first error."""
    outcomes = await asyncio.gather(*steps, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
