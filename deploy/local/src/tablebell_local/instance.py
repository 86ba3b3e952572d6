"""An instance: one system with its own servers, ports, secrets and logs, all below one directory."""

import asyncio
import fcntl
import hashlib
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tablebell_local.credentials import Secrets, load
from tablebell_local.errors import CommandError
from tablebell_local.ports import PortRegistry

PROJECT = Path(__file__).resolve().parents[4]
STATE = PROJECT / ".local"
LOCK_TIMEOUT = 180.0
STANDBY, KEEP, USERS = "standby", "keep", "users"


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
    def is_developers(self) -> bool:
        """It prefers the documented ports and has no administrator of RabbitMQ. Tests and benches use the others."""
        return self.name == "dev"

    @property
    def has_standby(self) -> bool:
        """Whether a second PostgreSQL replicates the first."""
        return self.path(STANDBY).exists()

    @property
    def is_kept(self) -> bool:
        """Whether the servers stay up between test runs."""
        return self.path(KEEP).exists()

    @property
    def in_use(self) -> bool:
        """Whether a test run is using the servers now: it holds a lock on the file."""
        if not self.path(USERS).exists():
            return False
        with self.path(USERS).open() as users:
            return not try_lock(users.fileno())

    def add_standby(self) -> None:
        """The next `up` creates the second PostgreSQL."""
        self.create()
        self.path(STANDBY).touch()

    @property
    def label(self) -> str:
        """Unique on this machine, also among clones; the name of the RabbitMQ node and the PostgreSQL cluster."""
        digest = hashlib.sha256(bytes(self.directory)).hexdigest()[:8]
        return f"tablebell-{self.name}-{digest}"

    @cached_property
    def ports(self) -> PortRegistry:
        return PortRegistry(self.path("ports.json"))

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(load(self.path("secrets.env")))

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
        deadline = time.monotonic() + seconds
        with self.path("lock").open("a") as file:
            if not try_lock(file.fileno()):
                print(f"Waiting for another command that is changing the instance “{self.name}” …", file=sys.stderr)
                while not try_lock(file.fileno()):
                    if time.monotonic() > deadline:
                        raise CommandError(f"another command has been changing “{self.name}” for {seconds:.0f} s")
                    await asyncio.sleep(0.2)
            yield


def try_lock(descriptor: int) -> bool:
    """Locks the file unless another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
