"""The state, age and address of every process."""

import asyncio
import os
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from tablebell_local.errors import CommandError
from tablebell_local.process import ManagedProcess

COLUMNS = "{:<22} {:<10} {:>8} {:>10}  {}"


async def show(processes: Sequence[ManagedProcess]) -> bool:
    """Prints a line per process, and returns whether all are healthy."""
    problems = await asyncio.gather(*map(_problem, processes))
    print(COLUMNS.format("PROCESS", "STATE", "PID", "UP", "ADDRESS"))
    for process, problem in zip(processes, problems, strict=True):
        pid = min(process.pids(), default=None)
        if pid is None:
            print(COLUMNS.format(process.name, "stopped", "", "", ""))
        else:
            state = "healthy" if problem is None else "unhealthy"
            print(COLUMNS.format(process.name, state, pid, _age(pid), problem or process.address))
    return not any(problems)


async def _problem(process: ManagedProcess) -> str | None:
    try:
        return await process.problem() if process.pids() else "stopped"
    except CommandError as error:
        return str(error)


def _age(pid: int) -> str:
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return ""
    return str(timedelta(seconds=int(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))))
