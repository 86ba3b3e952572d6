"""Test support: a primary and a standby of its own, to be switched over by a test."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from tablebell_local.instance import Instance
from tablebell_local.progress import Progress
from tablebell_local.replication import Replication
from tablebell_local.stack import Stack


@contextlib.contextmanager
def open_replication(state: Path, name: str = "test-replication") -> Iterator[Replication]:
    """Both servers run, and the standby streams. Without any of the other servers of an instance."""
    instance = Instance.named(name, state)
    instance.add_standby()
    stack = Stack(instance)
    stack.programs.ensure()
    replication = stack.replication
    try:
        with Progress() as board:
            stack.prepare(replication.servers, board)
            asyncio.run(replication.up(board))
        yield replication
    finally:
        for server in replication.servers:
            asyncio.run(server.kill())
        stack.forget()
