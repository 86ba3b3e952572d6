"""An instance's servers, and how they are brought up and ended."""

import asyncio
import shutil
import signal
from collections.abc import Coroutine, Sequence

from tablebell_local.credentials import Secrets, load, load_or_create
from tablebell_local.epmd import Epmd
from tablebell_local.failure import Failure
from tablebell_local.instance import STANDBY, Instance
from tablebell_local.ports import PortBook, preferred_somewhere
from tablebell_local.postgres import Postgres
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.processes import end, find
from tablebell_local.programs import Programs
from tablebell_local.progress import Progress
from tablebell_local.rabbitmq import RabbitMq
from tablebell_local.replication import Replication


class Stack:
    """What changes something is to be called with the instance locked."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.programs = Programs()
        self.ports = PortBook(instance.path("ports.json"))
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

    def prepare(self, parts: Sequence[ManagedProcess], board: Progress) -> None:
        """What must be there before the first of the parts is started."""
        self.instance.create()
        self.secrets |= load_or_create(self.instance.path("secrets.env"))
        self._settle_ports(parts, board)

    async def servers_up(self, board: Progress) -> None:
        async def broker() -> None:
            await bring_up(self.epmd, board)
            await bring_up(self.rabbitmq, board)

        await together(self.replication.up(board), broker())

    def _settle_ports(self, parts: Sequence[ManagedProcess], board: Progress) -> None:
        running = [part for part in parts if part.pids()]
        wishes = {name: wish for part in parts for name, wish in part.preferred_ports.items()}
        if not self.instance.has_fixed_ports:
            wishes = {name: preferred_somewhere(self.instance.label, name) for name in wishes}
        held = {name for part in running for name in part.preferred_ports}
        for moved in self.ports.settle(wishes, held):
            if moved.name not in held and self.instance.has_fixed_ports:
                board.note(f"{moved.preferred} is taken by another program: {moved.name} is at {moved.actual}")

    async def down(self, board: Progress) -> None:
        """Ends everything that carries the instance's mark, whichever version of the project started it."""
        servers = {part.name for part in self.servers}
        found = {process.part for process in find(self.instance.directory)}
        await together(*(self.end(part, board) for part in sorted(found - servers)))
        await together(*(self._stop(part, board) for part in (*self.replication.servers, self.rabbitmq)))
        await self._stop(self.epmd, board)
        left = [process.pid for process in find(self.instance.directory)]
        left += [pid for server in self.replication.servers for pid in server.pids()]
        if left:
            raise Failure(f"these processes cannot be ended: {', '.join(map(str, left))}")
        if self.instance.is_throwaway:
            self.forget()

    def forget(self) -> None:
        """Removes the servers' data, and with it the wish for a standby."""
        for name in ("pgdata", "pgdata-2", "rabbitmq"):
            shutil.rmtree(self.instance.path(name), ignore_errors=True)
        self.instance.path(STANDBY).unlink(missing_ok=True)

    async def end(self, name: str, board: Progress) -> None:
        def pids() -> list[int]:
            return [process.pid for process in find(self.instance.directory, name)]

        board.set(name, "stopping")
        await end(pids, [(signal.SIGTERM, 30.0)])
        board.ready(name, state="stopped")

    async def _stop(self, part: ManagedProcess, board: Progress) -> None:
        if part.pids():
            board.set(part.name, "stopping")
            await (part.kill() if self.instance.is_throwaway else part.stop())
            board.ready(part.name, state="stopped")


async def together(*steps: Coroutine[None, None, None]) -> None:
    """Runs the steps at once and to their ends, so that each says how it went; then the first failure counts."""
    outcomes = await asyncio.gather(*steps, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
