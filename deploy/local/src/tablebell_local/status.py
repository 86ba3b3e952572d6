"""The state, age and address of every process."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tablebell_local.errors import CommandError
from tablebell_local.process import ManagedProcess

COLOURS = {"healthy": "green", "unhealthy": "red", "stopped": "dim"}


@dataclass(frozen=True)
class ProcessStatus:
    name: str
    state: str
    pid: int | None = None
    seconds: float = 0
    address: str = ""
    detail: str = ""


async def inspect(processes: list[ManagedProcess]) -> list[ProcessStatus]:
    return await asyncio.gather(*(_inspect(process) for process in processes))


def show(lines: list[ProcessStatus], console: Console) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    for heading in ("PROCESS", "STATE", "PID", "UP", "ADDRESS"):
        table.add_column(heading, no_wrap=True)
    for line in lines:
        state = f"[{COLOURS[line.state]}]{line.state}[/]"
        table.add_row(line.name, state, str(line.pid or ""), _duration(line), line.address)
    console.print(table)
    for line in lines:
        if line.detail:
            console.print(f"{line.name}: {line.detail}", markup=False, soft_wrap=True)


async def _inspect(process: ManagedProcess) -> ProcessStatus:
    pids = process.pids()
    if not pids:
        return ProcessStatus(process.name, "stopped")
    try:
        problem = await process.problem()
    except CommandError as error:
        return ProcessStatus(process.name, "unhealthy", min(pids), _age(min(pids)), "", str(error))
    state = "healthy" if problem is None else "unhealthy"
    return ProcessStatus(process.name, state, min(pids), _age(min(pids)), process.address, problem or "")


def _age(pid: int) -> float:
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _duration(line: ProcessStatus) -> str:
    if line.pid is None:
        return ""
    minutes, seconds = divmod(int(line.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
