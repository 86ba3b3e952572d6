"""The measured server processes, with memory and processor time from /proc, and what clients need to use them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiormq.abc import AbstractChannel
from pydantic import SecretStr

from bench.gateway.clients import masked
from tablebell.rabbit import Broker
from tablebell.testing import free_port
from tablebell.testing.tokens import AUDIENCE, SECRET, token
from tablebell.topology import declare_live

READY = b'"type":"ready"'


@dataclass(frozen=True, slots=True)
class MeasuredProcess:
    pid: int

    @property
    def memory_kib(self) -> int:
        """The proportional set size: resident memory, with shared pages divided among their processes."""
        for line in Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
        raise RuntimeError("smaps_rollup has no Pss line")

    @property
    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def python_process(*module: str, environment: Mapping[str, str], port: int) -> AsyncIterator[MeasuredProcess]:
    """Run `python -m module …`. Enters when its port accepts connections."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *module,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        await _wait_for_port(port)
        yield MeasuredProcess(process.pid)
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def gateway_process(amqp_url: SecretStr) -> AsyncIterator[tuple[int, MeasuredProcess]]:
    """Run ws-gateway and yield its port and its process."""
    port = free_port()
    environment = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "AMQP_URL": amqp_url.get_secret_value(),
        "JWT_SECRET": SECRET,
        "JWT_AUDIENCE": AUDIENCE,
        "LOG_LEVEL": "WARNING",
    }
    async with python_process("ws_gateway", environment=environment, port=port) as server:
        await asyncio.sleep(1)  # until it consumes frames
        yield port, server


def auth_messages(users: int) -> list[bytes]:
    """The first message of each of CUSTOMER:1, CUSTOMER:2 and so on."""
    return [
        masked(json.dumps({"type": "auth", "token": token(f"CUSTOMER:{number + 1}")}).encode())
        for number in range(users)
    ]


async def open_live_channel(broker: Broker) -> AbstractChannel:
    channel = await broker.open_channel(confirms=False, wait=10)
    await declare_live(channel)
    return await channel.get_underlay_channel()


async def _wait_for_port(port: int) -> None:
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
