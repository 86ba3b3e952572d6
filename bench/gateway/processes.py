"""Server processes of a measurement, and what they cost: memory and processor time, from /proc."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Measured:
    pid: int

    @property
    def memory_kib(self) -> int:
        """What is resident and its own."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
        raise RuntimeError("the kernel tells no memory")

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def python_process(*module: str, environment: Mapping[str, str], port: int) -> AsyncIterator[Measured]:
    """`python -m module …`, until its port answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *module,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        await _listening(port)
        yield Measured(process.pid)
    finally:
        process.kill()
        await process.wait()


async def _listening(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            await writer.wait_closed()
            return
