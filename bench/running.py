"""The whole system as processes on the rig's servers: one of each service, and the sandbox."""

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from pydantic import SecretStr

from bench.harness import Harness
from tablebell.testing import Database, free_port
from tablebell_local.services import FCM_PROJECT, SERVICES
from tablebell_tools.unlimited import UNLIMITED

READY_SECONDS = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Environment:
    """Where the parts find each other; what `tablebell_local` makes settings from."""

    database: Database
    amqp: SecretStr
    directory: Path
    _ports: dict[str, int] = field(default_factory=dict)
    _secrets: dict[str, str] = field(default_factory=dict)

    def database_url(self, service: str) -> str:
        return self.database.url_of(service.replace("-", "_")).get_secret_value()

    def secret(self, name: str) -> str:
        return self._secrets.setdefault(name, secrets.token_urlsafe(32))

    def port(self, name: str) -> int:
        return self._ports.setdefault(name, free_port())

    def amqp_url(self, _service: str) -> str:
        return self.amqp.get_secret_value()

    @property
    def fcm_credentials(self) -> Path:
        return self.directory / "fcm.json"


@dataclass
class Process:
    name: str
    process: asyncio.subprocess.Process

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory_mib(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024


@dataclass
class Running:
    site: Environment
    parts: dict[str, Process]

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.site.port('reservation-api')}"

    @property
    def gateway(self) -> str:
        return f"ws://127.0.0.1:{self.site.port('ws-gateway')}/ws"


@asynccontextmanager
async def running_system(harness: Harness) -> AsyncIterator[Running]:
    async with harness.database() as database, harness.vhost() as amqp:
        with tempfile.TemporaryDirectory() as directory:
            site = Environment(database, amqp, Path(directory))
            await _make_service_account(site)
            running = Running(site, {})
            try:
                for spec in SERVICES:
                    ports = {setting: str(site.port(name)) for setting, (name, _) in spec.ports.items()}
                    settings = spec.settings(site) | ports | UNLIMITED | {"LOG_LEVEL": "WARNING"}
                    running.parts[spec.name] = await _start(spec.name, spec.module, settings)
                for spec in SERVICES:
                    await _ready(running.parts[spec.name], site.port(next(iter(spec.ports.values()))[0]))
                yield running
            finally:
                await _end(running)


async def _make_service_account(site: Environment) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tablebell_sandbox", "service-account", "--project", FCM_PROJECT,
        "--token-uri", f"http://127.0.0.1:{site.port('sandbox-fcm')}/token", "--out", str(site.fcm_credentials),
    )  # fmt: skip
    assert await process.wait() == 0


async def _start(name: str, module: tuple[str, ...], settings: dict[str, str]) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, env=os.environ | settings, stdout=asyncio.subprocess.DEVNULL
    )
    return Process(name, process)


async def _ready(part: Process, port: int) -> None:
    deadline = asyncio.get_running_loop().time() + READY_SECONDS
    async with httpx.AsyncClient() as http:
        while asyncio.get_running_loop().time() < deadline:
            assert part.process.returncode is None, f"{part.name} ended at its start"
            try:
                if (await http.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
    raise TimeoutError(f"{part.name} was not ready within {READY_SECONDS:.0f} s")


async def _end(running: Running) -> None:
    for part in running.parts.values():
        if part.process.returncode is None:
            part.process.terminate()
    await asyncio.gather(*(part.process.wait() for part in running.parts.values()))
