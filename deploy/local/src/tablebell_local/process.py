"""A managed process: a program with its settings, ports, log and health check."""

import asyncio
import contextlib
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tablebell_local import logfiles
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.processes import find, fingerprint, inherited_environment, spawn, stop
from tablebell_local.progress import say

POLL = 0.1
PROBE_TIMEOUT = 5.0
RECOVERY = 10.0  # a running process may still be starting, or reconnecting to a server


class ManagedProcess(ABC):
    """Keeps no state about whether it runs: the kernel is asked each time."""

    start_limit = 60.0
    stop_steps: Sequence[tuple[signal.Signals, float]] = ((signal.SIGTERM, 30.0),)

    def __init__(self, name: str, instance: Instance, preferred: Mapping[str, int]) -> None:
        self.name = name
        self.instance = instance
        self.ports = instance.ports
        self.preferred_ports = preferred
        self.log_begin = 0
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.instance.log(self.name)

    @property
    def address(self) -> str:
        """Host and port of its first port."""
        return f"127.0.0.1:{self.ports[next(iter(self.preferred_ports))]}"

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Its environment variables. `up` restarts a process that runs with others."""

    @abstractmethod
    async def problem(self) -> str | None:
        """Why it is not healthy, or None if it is. Takes a few seconds at most."""

    def config(self) -> str:
        """A fingerprint of the program and its settings."""
        return fingerprint(self.command(), self.settings())

    async def prepare(self) -> list[str]:
        """Writes the files it needs, and returns a prefix for its command."""
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
            name=self.name,
            config=self.config(),
            environment=inherited_environment() | self.settings(),
            log=self.log,
        )

    def has_ended(self) -> bool:
        return self._child.poll() is not None if self._child else not self.pids()

    async def stop(self, steps: Sequence[tuple[signal.Signals, float]] | None = None) -> None:
        await stop(self.pids, self.stop_steps if steps is None else steps)
        if self._child is not None:  # it may exit a moment after its environment is gone
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._child.wait, 5)

    async def kill(self) -> None:
        await self.stop(())


async def bring_up(process: ManagedProcess) -> None:
    """Starts the process, or restarts it if it is unhealthy or has old settings. A healthy one is not touched."""
    if process.pids():
        if process.is_current() and await wait_for_health(process, RECOVERY) is None:
            say(process.name, "ready", "was running")
            return
        say(process.name, "restarting")
        await process.stop()
    started = time.monotonic()
    say(process.name, "starting")
    await process.start()
    problem = await wait_for_health(process, process.start_limit)
    if problem is not None:
        say(process.name, "failed", problem)
        raise CommandError(f"{process.name} did not start: {problem}", process.log, process.log_begin)
    say(process.name, "ready", f"{time.monotonic() - started:.1f} s")


async def wait_for_health(process: ManagedProcess, limit: float) -> str | None:
    deadline = time.monotonic() + limit
    while (problem := await process.problem()) is not None:
        if process.has_ended():
            return "its process ended"
        if time.monotonic() > deadline:
            return f"{problem} (waited {limit:.0f} s)"
        await asyncio.sleep(POLL)
    return None


async def http_problem(port: int, path: str, headers: Mapping[str, str] | None = None) -> str | None:
    """Why a GET is not answered with 200, or None if it is."""

    def get() -> str | None:
        connection = HTTPConnection("127.0.0.1", port, timeout=PROBE_TIMEOUT)
        try:
            connection.request("GET", path, headers=dict(headers or {}))
            response = connection.getresponse()
            body = response.read(2_000).decode(errors="replace")
        except (OSError, HTTPException) as error:
            return f"no response from 127.0.0.1:{port}: {str(error) or type(error).__name__}"
        finally:
            connection.close()
        return None if response.status == 200 else f"{path} answers {response.status}: {body}"

    return await asyncio.to_thread(get)
