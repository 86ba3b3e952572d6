"""Finding, starting and ending the processes of an instance.

There are no pid files: a process carries the marks of its instance and part in its environment, which the
kernel keeps for as long as it lives and its children inherit. What the scan finds is what runs.
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

STACK_MARK = "TABLEBELL_STACK"
PROCESS_MARK = "TABLEBELL_PART"
CONFIG_MARK = "TABLEBELL_CONFIG"


@dataclass(frozen=True)
class Process:
    pid: int
    part: str
    config: str


def find(stack: Path, part: str | None = None) -> list[Process]:
    """The living processes of an instance, or of one of its parts. A zombie has no environment left."""
    found = []
    for pid in _pids():
        environment = _environment(pid)
        if environment.get(STACK_MARK) == str(stack) and part in {None, environment.get(PROCESS_MARK)}:
            found.append(Process(pid, environment.get(PROCESS_MARK, "?"), environment.get(CONFIG_MARK, "")))
    return found


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """The pid and arguments of every process; unlike environments, they can be read whoever owns them."""
    for pid in _pids():
        with contextlib.suppress(OSError):
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            yield pid, [os.fsdecode(argument) for argument in arguments]


def fingerprint(*settings: object) -> str:
    """Tells whether a running process was started with these settings."""
    return hashlib.sha256(repr(settings).encode()).hexdigest()[:16]


def inherited_environment() -> dict[str, str]:
    """What any program needs and nothing more: a stray DATABASE_URL of the user must not reach a service."""
    wanted = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"}
    return {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}


def spawn(
    command: Sequence[str | Path],
    *,
    stack: Path,
    part: str,
    config: str,
    environment: Mapping[str, str],
    log: Path,
) -> "subprocess.Popen[bytes]":
    """Starts a process in a session of its own, so that it outlives the command that started it."""
    marks = {STACK_MARK: str(stack), PROCESS_MARK: part, CONFIG_MARK: config}
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env={**environment, **marks},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


async def end(find_pids: Callable[[], list[int]], steps: Sequence[tuple[signal.Signals, float]]) -> None:
    """Sends what `find_pids` finds one signal after the other, each with its time to take effect, and in the
    end kills everything that is left. A child is its parent's to end, so only the topmost get a signal."""
    for step, patience in steps:
        pids = find_pids()
        topmost = [pid for pid in pids if _parent(pid) not in pids]
        _send(topmost, step)
        _send(topmost, signal.SIGCONT)  # a frozen process hears of it only when it goes on
        if await _gone(find_pids, patience):
            return
    for _ in range(20):
        _send(find_pids(), signal.SIGKILL)
        if await _gone(find_pids, 0.5):
            return


async def _gone(find_pids: Callable[[], list[int]], patience: float) -> bool:
    deadline = time.monotonic() + patience
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
    return int(status.rpartition(")")[2].split()[1])  # the name, in brackets before it, may hold anything


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _environment(pid: int) -> dict[str, str]:
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it ended just now, or belongs to somebody else
        return {}
    pairs = (entry.split(b"=", 1) for entry in content.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, value in pairs}
