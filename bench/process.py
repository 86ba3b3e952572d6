"""Runs a service in a process of its own, as it is deployed, and reads its memory and processor time from /proc."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tablebell.testing import eventually
from tablebell.testing.processes import is_ready

TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 60.0


@dataclass(slots=True)
class MeasuredProcess:
    pid: int
    exit_code: int | None = None
    """None while it runs."""

    @property
    def memory_kib(self) -> int:
        """The proportional set size: resident memory, with shared pages divided among their processes."""
        return self._kib("smaps_rollup", "Pss:")

    @property
    def resident_kib(self) -> int:
        return self._kib("status", "VmRSS:")

    @property
    def cpu_seconds(self) -> float:
        # utime and stime are the 12th and 13th field after the name, which may contain anything.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def _kib(self, file: str, field: str) -> int:
        lines = Path(f"/proc/{self.pid}/{file}").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(field)))


@asynccontextmanager
async def python_process(
    *module: str, port: int, settings: Mapping[str, str] | None = None, has_health: bool = True
) -> AsyncIterator[MeasuredProcess]:
    """Run `python -m module …`, and stop it at the end. Enters when it is ready.

    `port`: of /health/ready. Without `has_health` the process is ready when it accepts a connection there.
    """
    environment = {**os.environ, "HOST": "127.0.0.1", "PORT": str(port), "LOG_LEVEL": "WARNING", **(settings or {})}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, env=environment, stdout=asyncio.subprocess.DEVNULL
    )

    async def has_started() -> bool:
        if process.returncode is not None:
            raise RuntimeError(f"{module[0]} ended at its start with exit code {process.returncode}")
        return await (is_ready(port) if has_health else _accepts(port))

    measured = MeasuredProcess(process.pid)
    try:
        await eventually(has_started, within=START_SECONDS, every=0.1)
        yield measured
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        measured.exit_code = await process.wait()


async def make_service_account(file: Path, project: str, fcm_port: int) -> None:
    """Write credentials that the sandbox's FCM accepts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tablebell_sandbox", "service-account", "--project", project,
        "--token-uri", f"http://127.0.0.1:{fcm_port}/token", "--out", str(file),
    )  # fmt: skip
    if await process.wait() != 0:
        raise RuntimeError("the sandbox wrote no service account")


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
