"""An instance: one stack with its own servers, ports, secrets and logs, all below one directory."""

import asyncio
import fcntl
import hashlib
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tablebell_local.failure import Failure

PROJECT = Path(__file__).resolve().parents[4]
STATE = PROJECT / ".local"
LOCK_PATIENCE = 180.0
STANDBY = "standby"


@dataclass(frozen=True)
class Instance:
    """Where one stack keeps its state. Two instances share nothing, so they can run side by side."""

    name: str
    directory: Path

    @classmethod
    def named(cls, name: str, state: Path = STATE) -> "Instance":
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
            raise Failure(f"“{name}” is not a name for an instance: use small letters, digits and dashes")
        return cls(name, state.resolve() / name)

    @property
    def is_throwaway(self) -> bool:
        """For tests: its data need not survive a crash of the machine, nor its own end."""
        return self.name == "test" or self.name.startswith("test-")

    @property
    def has_fixed_ports(self) -> bool:
        """The developer's own is found at the ports of the documentation; any other goes where there is room."""
        return self.name == "dev"

    @property
    def has_standby(self) -> bool:
        """Whether it has a second PostgreSQL that follows the first."""
        return self.path(STANDBY).exists()

    def add_standby(self) -> None:
        """The second PostgreSQL is made when the instance is next brought up."""
        self.create()
        self.path(STANDBY).touch()

    @property
    def label(self) -> str:
        """Unique on this machine, also among clones of the project; it names the node and the cluster."""
        digest = hashlib.sha256(bytes(self.directory)).hexdigest()[:8]
        return f"tablebell-{self.name}-{digest}"

    def path(self, *names: str) -> Path:
        return self.directory.joinpath(*names)

    def log(self, part: str) -> Path:
        return self.path("logs", f"{part}.log")

    def create(self) -> None:
        self.path("logs").mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def locked(self, patience: float = LOCK_PATIENCE) -> AsyncIterator[None]:
        """One command at a time changes an instance. The kernel drops the lock of a killed command."""
        self.create()
        descriptor = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            await _acquire(descriptor, self.name, patience)
            yield
        finally:
            os.close(descriptor)


async def _acquire(descriptor: int, name: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    announced = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Failure(f"another command has been changing the instance “{name}” for {patience:.0f} s") from None
            if not announced:
                print(f"Waiting for another command that is changing the instance “{name}” …", file=sys.stderr)
                announced = True
            await asyncio.sleep(0.2)
        else:
            return
