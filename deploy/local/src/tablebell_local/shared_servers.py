"""PostgreSQL and RabbitMQ of an instance, shared by the test runs that use them at the same time.

Each run holds a shared lock on the file `users`, which the kernel drops when the run is killed. The last run stops
the servers, unless the file `keep` exists.
"""

import asyncio
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.progress import Progress
from tablebell_local.stack import Stack

KEEP = "keep"
USERS = "users"


@contextmanager
def shared_servers(instance: Instance) -> Iterator[Stack]:
    if instance.name == "dev":
        raise CommandError("a test run would stop the developer's servers when it ends: use another instance")
    instance.create()
    with instance.path(USERS).open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        stack = Stack(instance)
        try:
            asyncio.run(start_servers(stack))
            yield stack
        finally:
            if _is_last_user(users.fileno()) and not is_kept(instance):
                asyncio.run(stop_everything(stack))


async def start_servers(stack: Stack, *, keep: bool = False) -> None:
    async with stack.instance.locked():
        if keep:
            stack.instance.path(KEEP).touch()
        stack.programs.ensure()
        with Progress() as progress:
            stack.prepare(stack.servers, progress)
            await stack.servers_up(progress)


async def stop_everything(stack: Stack) -> None:
    async with stack.instance.locked():
        stack.instance.path(KEEP).unlink(missing_ok=True)
        with Progress() as progress:
            await stack.down(progress)


def is_kept(instance: Instance) -> bool:
    """Whether the servers stay up between test runs."""
    return instance.path(KEEP).exists()


def in_use(instance: Instance) -> bool:
    """Whether a test run is using the servers now."""
    path = instance.path(USERS)
    if not path.exists():
        return False
    with path.open() as users:
        return not _is_last_user(users.fileno())


def _is_last_user(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
