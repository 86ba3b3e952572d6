"""Assigns a port to each process of an instance.

The preferred port wins if it is free, then the preferred one plus 10, 20, …. A running process keeps its port. All
ports are below 32768, where the range for outgoing connections starts: in that range, a client that keeps retrying a
stopped server can connect to itself.
"""

import contextlib
import hashlib
import json
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tablebell_local.errors import CommandError

STEP = 10
TRIES = 200


@dataclass(frozen=True)
class MovedPort:
    name: str
    preferred: int
    actual: int


class PortRegistry:
    """The ports of an instance, recorded in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ports: dict[str, int] = {}
        # Without a readable file, every port is assigned again.
        with contextlib.suppress(FileNotFoundError, ValueError, AttributeError, TypeError):
            self._ports = {str(name): int(port) for name, port in json.loads(path.read_text()).items()}

    def __getitem__(self, name: str) -> int:
        if name not in self._ports:
            raise CommandError(f"{name} has no port yet: start the system once with `make up`")
        return self._ports[name]

    def assign(self, preferred: Mapping[str, int], running: Collection[str]) -> list[MovedPort]:
        """Assigns a port to every name. Names in `running` keep theirs: their own process listens there."""
        assigned = {name: self._ports[name] for name in preferred if name in running and name in self._ports}
        for name, port in preferred.items():
            if name not in assigned:
                assigned[name] = self._choose(name, port, taken=assigned.values())
        if not assigned.items() <= self._ports.items():
            self._ports |= assigned
            temporary = self._path.with_suffix(".new")
            temporary.write_text(json.dumps(self._ports, indent=2) + "\n")
            temporary.rename(self._path)
        return [MovedPort(name, port, assigned[name]) for name, port in preferred.items() if assigned[name] != port]

    def _choose(self, name: str, preferred: int, taken: Collection[int]) -> int:
        for port in range(preferred, preferred + STEP * TRIES, STEP):
            if port not in taken and is_free(port):
                return port
        raise CommandError(f"no free port for {name}: tried {TRIES} from {preferred} on")


def preferred_port(label: str, name: str) -> int:
    """A pseudo-random port, so that two instances are unlikely to prefer the same one."""
    digest = hashlib.sha256(f"{label}/{name}".encode()).digest()
    return 20_000 + int.from_bytes(digest[:4]) % 10_000


def is_free(port: int) -> bool:
    """True if nothing listens on the port on any interface, IPv4 or IPv6."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        with socket.create_server(("", port), family=family, dualstack_ipv6=both):
            return True
    except OSError:
        return False
