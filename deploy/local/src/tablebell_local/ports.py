"""Which port each part of an instance listens on.

The preferred port wins if it is free, then the one of last time, then the preferred one plus 10, 20, ….
A part that runs keeps its port, whatever else became free. All are below 32768, where Linux starts to give ports
to outgoing connections: a client that keeps trying a stopped server there can end up connected to itself.
"""

import contextlib
import errno
import hashlib
import json
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tablebell_local.failure import Failure

STEP = 10
TRIES = 200


@dataclass(frozen=True)
class Moved:
    name: str
    preferred: int
    actual: int


class PortBook:
    """The recorded ports of an instance, in a file next to its other state."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ports: dict[str, int] = {}
        # With nothing recorded, or a damaged file, every port is chosen anew.
        with contextlib.suppress(FileNotFoundError, ValueError, AttributeError, TypeError):
            self._ports = {str(name): int(port) for name, port in json.loads(path.read_text()).items()}

    def __getitem__(self, name: str) -> int:
        if name not in self._ports:
            raise Failure(f"{name} has no port yet: start the system once with `make up`")
        return self._ports[name]

    def settle(self, preferred: Mapping[str, int], held: Collection[str]) -> list[Moved]:
        """Gives every name a port. `held` are the names whose own process listens there now."""
        settled = {name: self._ports[name] for name in preferred if name in held and name in self._ports}
        for name, wish in preferred.items():
            if name not in settled:
                settled[name] = self._choose(name, wish, taken=settled.values())
        if not settled.items() <= self._ports.items():
            self._ports |= settled
            temporary = self._path.with_suffix(".new")
            temporary.write_text(json.dumps(self._ports, indent=2) + "\n")
            temporary.rename(self._path)
        return [Moved(name, wish, settled[name]) for name, wish in preferred.items() if settled[name] != wish]

    def _choose(self, name: str, wish: int, taken: Collection[int]) -> int:
        before = [self._ports[name]] if name in self._ports else []
        for port in chain([wish], before, range(wish + STEP, wish + STEP * TRIES, STEP)):
            if port not in taken and is_free(port):
                return port
        raise Failure(f"no free port for {name}: tried {TRIES} from {wish} on")


def preferred_somewhere(label: str, name: str) -> int:
    """A port that two instances on one machine are unlikely to both prefer."""
    digest = hashlib.sha256(f"{label}/{name}".encode()).digest()
    return 20_000 + int.from_bytes(digest[:4]) % 10_000


def is_free(port: int) -> bool:
    """True if nothing listens on the port on any interface, IPv4 or IPv6."""
    return _can_listen(socket.AF_INET, "0.0.0.0", port) and _can_listen(socket.AF_INET6, "::", port)


def _can_listen(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        # A machine without IPv6 has nobody listening there; a port that may not be bound is of no use.
        return error.errno not in {errno.EADDRINUSE, errno.EACCES}
    return True
