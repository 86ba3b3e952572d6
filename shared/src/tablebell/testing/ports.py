"""Ports for servers that tests and measurements start."""

import contextlib
import random
import socket

# Below the kernel's ephemeral range: a client cannot take the port of a server that restarts.
_RANGE = range(20_000, 32_000)
_returned: set[int] = set()


def free_port() -> int:
    """A free port of 127.0.0.1. A process never gets the same port twice."""
    while True:
        port = random.choice(_RANGE)
        if port in _returned:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _returned.add(port)
            return port
