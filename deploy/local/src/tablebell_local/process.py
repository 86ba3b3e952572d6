"""A part of the stack: a program with its settings, its ports and a way to tell whether it is healthy."""

import asyncio
import contextlib
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from tablebell_local import logfiles
from tablebell_local.failure import Failure
from tablebell_local.instance import Instance
from tablebell_local.ports import PortBook
from tablebell_local.processes import end, find, fingerprint, inherited_environment, spawn
from tablebell_local.progress import Progress

POLL = 0.1
RECOVERY = 10.0  # what runs may still be starting, or reconnecting to a server that was away


class ManagedProcess(ABC):
    """Whether it runs is asked of the kernel each time; nothing is remembered."""

    start_limit = 60.0
    stop_steps: Sequence[tuple[signal.Signals, float]] = ((signal.SIGTERM, 30.0),)

    def __init__(self, name: str, instance: Instance, ports: PortBook, preferred: Mapping[str, int]) -> None:
        self.name = name
        self.instance = instance
        self.ports = ports
        self.preferred_ports = preferred
        self.log_begin = 0
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.instance.log(self.name)

    @property
    def address(self) -> str:
        """Where it listens, for people to read."""
        return f"127.0.0.1:{self.ports[next(iter(self.preferred_ports))]}"

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Its environment variables; a part that runs with others than these is restarted."""

    @abstractmethod
    async def problem(self) -> str | None:
        """Why it is not healthy, in a few words, or None if it is. Takes a few seconds at most."""

    def config(self) -> str:
        """Two starts with the same result run the same program with the same settings."""
        return fingerprint(self.command(), self.settings())

    async def prepare(self) -> list[str]:
        """Writes the files it needs, and returns what goes before its command."""
        return []

    def pids(self) -> list[int]:
        return [process.pid for process in find(self.instance.directory, self.name)]

    def is_current(self) -> bool:
        return any(p.config == self.config() for p in find(self.instance.directory, self.name))

    async def start(self) -> None:
        self.log_begin = logfiles.begin(self.log)
        prefix = await self.prepare()
        self._child = spawn(
            [*prefix, *self.command()],
            stack=self.instance.directory,
            part=self.name,
            config=self.config(),
            environment=inherited_environment() | self.settings(),
            log=self.log,
        )

    def has_ended(self) -> bool:
        """A child of ours counts as long as it lives: its marks can be read a moment after it was started."""
        return (self._child is None or self._child.poll() is not None) and not self.pids()

    async def stop(self) -> None:
        await end(self.pids, self.stop_steps)
        await self._collect()

    async def kill(self) -> None:
        await end(self.pids, ())
        await self._collect()

    async def _collect(self) -> None:
        """The exit code of a child of ours, which may end a moment after its last trace is gone."""
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._child.wait, 5)


async def bring_up(part: ManagedProcess, board: Progress) -> None:
    """Leaves the part healthy: untouched if it already is, restarted if it is stuck or has old settings."""
    board.set(part.name, "checking")
    if part.pids():
        if part.is_current() and await wait_for_health(part, RECOVERY) is None:
            board.ready(part.name, "was running")
            return
        board.set(part.name, "restarting")
        await part.stop()
    board.set(part.name, "starting")
    await part.start()
    problem = await wait_for_health(part, part.start_limit)
    if problem is not None:
        board.failed(part.name, problem)
        raise Failure(f"{part.name} did not start: {problem}", part.log, part.log_begin)
    board.ready(part.name)


async def wait_for_health(part: ManagedProcess, limit: float) -> str | None:
    deadline = time.monotonic() + limit
    while (problem := await part.problem()) is not None:
        if part.has_ended():
            return "its process ended"
        if time.monotonic() > deadline:
            return f"{problem} (waited {limit:.0f} s)"
        await asyncio.sleep(POLL)
    return None
