"""The servers of an instance: PostgreSQL, epmd and RabbitMQ."""

import asyncio
import shutil
import signal
from collections.abc import Coroutine, Sequence

from tablebell_local.credentials import Secrets, create_signing_key, load, load_or_create
from tablebell_local.epmd import Epmd
from tablebell_local.errors import CommandError
from tablebell_local.instance import STANDBY, Instance
from tablebell_local.ports import PortRegistry, preferred_port
from tablebell_local.postgres import Postgres
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.processes import find, stop
from tablebell_local.programs import Programs
from tablebell_local.progress import Progress
from tablebell_local.rabbitmq import RabbitMq
from tablebell_local.replication import Replication


class Stack:
    """Callers lock the instance before they call a method that changes something."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.programs = Programs()
        self.ports = PortRegistry(instance.path("ports.json"))
        self.secrets = Secrets(load(instance.path("secrets.env")))
        self.postgres = Postgres(instance, self.ports, self.programs, self.secrets)
        self.replication = Replication(
            self.postgres, Postgres(instance, self.ports, self.programs, self.secrets, number=2)
        )
        self.epmd = Epmd(instance, self.ports, self.programs)
        self.rabbitmq = RabbitMq(instance, self.ports, self.programs, self.secrets)

    @property
    def servers(self) -> tuple[ManagedProcess, ...]:
        return (*self.replication.servers, self.epmd, self.rabbitmq)

    def prepare(self, processes: Sequence[ManagedProcess], progress: Progress) -> None:
        """Creates the secrets and the signing key, and assigns the ports."""
        self.instance.create()
        self.secrets |= load_or_create(self.instance.path("secrets.env"))
        create_signing_key(self.instance.signing_key)
        self._assign_ports(processes, progress)

    async def servers_up(self, progress: Progress) -> None:
        async def broker() -> None:
            await bring_up(self.epmd, progress)
            await bring_up(self.rabbitmq, progress)

        await run_all(self.replication.up(progress), broker())

    def _assign_ports(self, processes: Sequence[ManagedProcess], progress: Progress) -> None:
        running = {name for process in processes if process.pids() for name in process.preferred_ports}
        preferred = {name: port for process in processes for name, port in process.preferred_ports.items()}
        if not self.instance.has_fixed_ports:
            preferred = {name: preferred_port(self.instance.label, name) for name in preferred}
        for moved in self.ports.assign(preferred, running):
            if moved.name not in running and self.instance.has_fixed_ports:
                progress.note(f"{moved.preferred} is in use by another program: {moved.name} listens on {moved.actual}")

    async def down(self, progress: Progress) -> None:
        """Stops every process with the instance's mark, also those that another version of the project started."""
        servers = {process.name for process in self.servers}
        found = {process.name for process in find(self.instance.directory)}
        await run_all(*(self.stop(name, progress) for name in sorted(found - servers)))
        await run_all(*(self._stop(process, progress) for process in (*self.replication.servers, self.rabbitmq)))
        await self._stop(self.epmd, progress)
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

    async def stop(self, name: str, progress: Progress) -> None:
        def pids() -> list[int]:
            return [process.pid for process in find(self.instance.directory, name)]

        progress.set(name, "stopping")
        await stop(pids, [(signal.SIGTERM, 30.0)])
        progress.ready(name, state="stopped")

    async def _stop(self, process: ManagedProcess, progress: Progress) -> None:
        if process.pids():
            progress.set(process.name, "stopping")
            await (process.kill() if self.instance.is_throwaway else process.stop())
            progress.ready(process.name, state="stopped")


async def run_all(*steps: Coroutine[None, None, None]) -> None:
    """Runs all steps to completion, so that each reports its result; then raises the first error."""
    outcomes = await asyncio.gather(*steps, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
