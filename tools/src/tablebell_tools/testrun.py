"""Runs pytest or the bench against the servers of an instance."""

import os
import shlex
import signal
import subprocess
import sys
from types import FrameType

from tablebell_local.instance import PROJECT, Instance
from tablebell_local.processes import CONFIG_MARK, PROCESS_MARK, STACK_MARK
from tablebell_local.stack import Stack
from tablebell_tools.shared_servers import shared_servers


def suites() -> list[str]:
    """One run per suite, since two suites may have modules of the same name. The longest come first."""
    members = [PROJECT, *sorted(PROJECT.glob("services/*")), PROJECT / "shared", PROJECT / "tools"]
    members += sorted(PROJECT.glob("deploy/*"))
    return [str((member / "tests").relative_to(PROJECT)) for member in members if (member / "tests").is_dir()]


def run(instance: Instance, module: str, *arguments: str) -> int:
    """Runs a Python module and returns its exit code."""
    exit_on_signals()
    with shared_servers(instance) as stack:
        process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=PROJECT, env=environment(stack))
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the child gets the signal too and ends by itself
                continue
            except SystemExit:
                process.terminate()
                process.wait(timeout=30)
                raise


def exit_on_signals() -> None:
    """SIGTERM and SIGHUP raise SystemExit, so that the servers are stopped."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)


def environment(stack: Stack) -> dict[str, str]:
    """The caller's environment without the marks of an instance, and the addresses of the servers."""
    command = [sys.executable, "-m", "tablebell_local", "--instance", stack.instance.name]
    command += ["--state", str(stack.instance.directory.parent)]
    marks = {STACK_MARK, PROCESS_MARK, CONFIG_MARK}
    return {name: value for name, value in os.environ.items() if name not in marks} | {
        "TEST_DATABASE_URL": stack.postgres.url("postgres"),
        "TEST_AMQP_URL": stack.rabbitmq.administrators_url,
        "TEST_AMQP_MANAGEMENT_URL": stack.rabbitmq.management_url,
        "TEST_STACK": shlex.join(command),
    }


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
