"""Test support: a primary and a standby that a test can switch over."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from tablebell_local.instance import Instance
from tablebell_local.programs import ensure_installed
from tablebell_local.replication import Replication
from tablebell_local.stack import Stack


@contextlib.contextmanager
def open_replication(state: Path, name: str = "test-replication") -> Iterator[Replication]:
    """Starts the two PostgreSQL servers of an instance, without RabbitMQ."""
    instance = Instance.named(name, state)
    instance.add_standby()
    ensure_installed()
    stack = Stack(instance)
    try:
        stack.prepare(stack.replication.servers)
        asyncio.run(stack.replication.up())
        yield stack.replication
    finally:
        for server in stack.replication.servers:
            asyncio.run(server.kill())
        stack.remove_data()
