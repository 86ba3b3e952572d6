"""Services as separate processes, for tests that send them signals."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tablebell.testing.waiting import eventually


@asynccontextmanager
async def service_process(
    module: str, port: int, settings: Mapping[str, str], log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `python -m module` until the block ends, and append its output to `log`. Enters when it is ready."""
    environment = {**os.environ, "HOST": "127.0.0.1", "PORT": str(port), **settings}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, env=environment, stdout=output, stderr=output
        )
    try:
        await wait_until_ready(port)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def is_ready(port: int) -> bool:
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200
        except httpx.TransportError:
            return False


async def wait_until_ready(port: int) -> None:
    await eventually(lambda: is_ready(port), within=60, every=0.05)
