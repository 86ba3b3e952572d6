"""PostgreSQL and RabbitMQ of an instance, shared by the test runs that use them at the same time.

Each run holds a shared lock on the file `users`, which the kernel drops when the run is killed. The last run stops
the servers, unless they are kept (`python -m tablebell_local servers`).
"""

import asyncio
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from tablebell_local.errors import CommandError
from tablebell_local.instance import USERS, Instance, try_lock
from tablebell_local.stack import Stack


@contextmanager
def shared_servers(instance: Instance) -> Iterator[Stack]:
    if instance.is_developers:
        raise CommandError("a test run would stop the developer's servers when it ends: use another instance")
    instance.create()
    with instance.path(USERS).open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        stack = Stack(instance)
        try:
            asyncio.run(stack.start())
            yield stack
        finally:
            if try_lock(users.fileno()) and not instance.is_kept:  # this was the last run
                asyncio.run(stack.stop_everything())
