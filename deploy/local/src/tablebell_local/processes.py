"""Finds, starts and stops the processes of an instance.

There are no pid files. Environment variables mark a process with its instance and name; children inherit them, and
/proc shows them for as long as the process lives.
"""

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tablebell_local.errors import CommandError

STACK_MARK = "TABLEBELL_STACK"
PROCESS_MARK = "TABLEBELL_PART"
CONFIG_MARK = "TABLEBELL_CONFIG"


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    config: str


def find(stack: Path, name: str | None = None) -> list[Process]:
    """The processes of an instance, or those with one name. Zombies have no environment and are not found."""
    found = []
    for pid in _pids():
        environment = _environment(pid)
        if environment.get(STACK_MARK) == str(stack) and name in {None, environment.get(PROCESS_MARK)}:
            found.append(Process(pid, environment.get(PROCESS_MARK, "?"), environment.get(CONFIG_MARK, "")))
    return found


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """The pid and arguments of every process. Unlike environments, they are readable for every user."""
    for pid in _pids():
        with contextlib.suppress(OSError):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            yield pid, [os.fsdecode(argument) for argument in arguments]


def fingerprint(*settings: object) -> str:
    """Identifies the settings that a process was started with."""
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:16]


def inherited_environment() -> dict[str, str]:
    """The variables that every program needs. A DATABASE_URL of the user must not reach a service."""
    wanted = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"}
    return {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}


def spawn(
    command: Sequence[str], *, stack: Path, name: str, config: str, environment: Mapping[str, str], log: Path
) -> "subprocess.Popen[bytes]":
    """Starts a process in a new session, so that it outlives this command."""
    marked = {**environment, STACK_MARK: str(stack), PROCESS_MARK: name, CONFIG_MARK: config}
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=marked, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def run_to_log(command: Sequence[str], log: Path, begin: int, environment: Mapping[str, str], limit: float) -> None:
    """Runs a command to completion, with its output in the log."""
    whole, nothing = {**inherited_environment(), **environment}, subprocess.DEVNULL
    with log.open("ab") as output:
        try:
            subprocess.run(
                command, env=whole, cwd="/", stdin=nothing, stdout=output, stderr=output, check=True, timeout=limit
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise CommandError(str(error), log, begin) from None


async def stop(find_pids: Callable[[], list[int]], steps: Sequence[tuple[signal.Signals, float]]) -> None:
    """Sends each signal in turn and waits up to its timeout; then kills all remaining processes. Only topmost processes
    get a signal, since parents stop their own children."""
    for step, timeout in steps:
        pids = find_pids()
        topmost = [pid for pid in pids if _parent(pid) not in pids]
        _send(topmost, step)
        _send(topmost, signal.SIGCONT)  # a stopped process handles the signal when it continues
        if await _gone(find_pids, timeout):
            return
    for _ in range(20):
        _send(find_pids(), signal.SIGKILL)
        if await _gone(find_pids, 0.5):
            return


async def _gone(find_pids: Callable[[], list[int]], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while find_pids():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])  # the name before it, in parentheses, may contain spaces


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _environment(pid: int) -> dict[str, str]:
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has just ended, or belongs to another user
        return {}
    pairs = (entry.split(b"=", 1) for entry in content.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
