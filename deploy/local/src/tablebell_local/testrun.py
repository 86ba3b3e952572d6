"""Runs pytest or the bench against servers of an instance, which it starts and, as the last to use them, stops."""

import asyncio
import fcntl
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from tablebell_local.failure import Failure
from tablebell_local.instance import PROJECT, Instance
from tablebell_local.processes import CONFIG_MARK, PROCESS_MARK, STACK_MARK
from tablebell_local.progress import Progress
from tablebell_local.stack import Stack

KEEP = "keep"


def suites() -> list[str]:
    """Each by itself, since two may have modules of one name. The longest come first."""
    members = [PROJECT, *sorted(PROJECT.glob("services/*")), PROJECT / "shared", *sorted(PROJECT.glob("deploy/*"))]
    return [str((member / "tests").relative_to(PROJECT)) for member in members if (member / "tests").is_dir()]


def run(instance: Instance, programs: Sequence[Sequence[str]]) -> int:
    """Runs Python modules, one after the other, and returns the first exit code that is not 0.

    Several runs may share the servers: each holds a shared lock on `users`, and only who can get it for
    itself alone at the end stops them, unless somebody asked with `servers` to keep them.
    """
    if instance.name == "dev":
        raise Failure("tests would end the developer's own servers with them: use another instance")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    instance.create()
    with instance.path("users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        stack = Stack(instance)
        try:
            asyncio.run(bring_up_servers(stack))
            codes = [_python(stack, *program) for program in programs]
            return next((code for code in codes if code), 0)
        finally:
            if is_last_user(users.fileno()) and not is_kept(instance):
                asyncio.run(bring_down(stack))


def keep(instance: Instance, *, kept: bool) -> None:
    """Somebody wants the servers for longer than one test run, or no more."""
    if kept:
        instance.path(KEEP).touch()
    else:
        instance.path(KEEP).unlink(missing_ok=True)


def is_kept(instance: Instance) -> bool:
    return instance.path(KEEP).exists()


def in_use(instance: Instance) -> bool:
    """Whether a test run is using the servers of the instance now."""
    path = instance.path("users")
    if not path.exists():
        return False
    with path.open() as users:
        return not is_last_user(users.fileno())


def environment(stack: Stack) -> dict[str, str]:
    command = [sys.executable, "-m", "tablebell_local", "--instance", stack.instance.name]
    command += ["--state", str(stack.instance.directory.parent)]
    return {
        "TEST_DATABASE_URL": stack.postgres.url("postgres"),
        "TEST_AMQP_URL": stack.rabbitmq.url,
        "TEST_AMQP_MANAGEMENT_URL": stack.rabbitmq.management_url,
        "TEST_STACK": shlex.join(command),
    }


def outer_environment() -> dict[str, str]:
    marks = {STACK_MARK, PROCESS_MARK, CONFIG_MARK}
    return {name: value for name, value in os.environ.items() if name not in marks}


def _python(stack: Stack, module: str, *arguments: str) -> int:
    given = outer_environment() | environment(stack)
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=PROJECT, env=given)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # it went to the program too, which ends by itself
            continue
        except SystemExit:
            process.terminate()
            process.wait(timeout=30)
            raise


async def bring_up_servers(stack: Stack) -> None:
    async with stack.instance.locked():
        stack.programs.ensure()
        with Progress() as board:
            stack.prepare(stack.servers, board)
            await stack.servers_up(board)


async def bring_down(stack: Stack) -> None:
    async with stack.instance.locked():
        with Progress() as board:
            await stack.down(board)


def is_last_user(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
