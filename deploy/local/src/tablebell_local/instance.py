"""An instance: one system with its own servers, ports, secrets and logs, all below one directory."""

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

from tablebell_local.errors import CommandError

PROJECT = Path(__file__).resolve().parents[4]
STATE = PROJECT / ".local"
LOCK_TIMEOUT = 180.0
STANDBY = "standby"


@dataclass(frozen=True)
class Instance:
    """Two instances share nothing, so they can run side by side."""

    name: str
    directory: Path

    @classmethod
    def named(cls, name: str, state: Path = STATE) -> "Instance":
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", name):
            raise CommandError(f"“{name}” is not a valid instance name: use lowercase letters, digits and dashes")
        return cls(name, state.resolve() / name)

    @property
    def is_throwaway(self) -> bool:
        """For tests: the data need not survive a crash of the machine, and `down` removes it."""
        return self.name == "test" or self.name.startswith("test-")

    @property
    def has_fixed_ports(self) -> bool:
        """The developer's instance prefers the documented ports; any other instance takes free ones."""
        return self.name == "dev"

    @property
    def has_standby(self) -> bool:
        """Whether a second PostgreSQL replicates the first."""
        return self.path(STANDBY).exists()

    def add_standby(self) -> None:
        """The next `up` creates the second PostgreSQL."""
        self.create()
        self.path(STANDBY).touch()

    @property
    def label(self) -> str:
        """Unique on this machine, also among clones; the name of the RabbitMQ node and the PostgreSQL cluster."""
        digest = hashlib.sha256(bytes(self.directory)).hexdigest()[:8]
        return f"tablebell-{self.name}-{digest}"

    def path(self, *names: str) -> Path:
        return self.directory.joinpath(*names)

    @property
    def signing_key(self) -> Path:
        """The private key of reservation-api, which signs tokens."""
        return self.path("jwt-private-key.pem")

    def log(self, name: str) -> Path:
        return self.path("logs", f"{name}.log")

    def create(self) -> None:
        self.path("logs").mkdir(parents=True, exist_ok=True)

    @asynccontextmanager
    async def locked(self, seconds: float = LOCK_TIMEOUT) -> AsyncIterator[None]:
        """Only one command at a time changes an instance. The kernel releases the lock of a killed command."""
        self.create()
        descriptor = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            await _acquire(descriptor, self.name, seconds)
            yield
        finally:
            os.close(descriptor)


async def _acquire(descriptor: int, name: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    announced = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"another command has been changing the instance “{name}” for {seconds:.0f} s"
                ) from None
            if not announced:
                print(f"Waiting for another command that is changing the instance “{name}” …", file=sys.stderr)
                announced = True
            await asyncio.sleep(0.2)
        else:
            return
