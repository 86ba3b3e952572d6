"""The whole system as processes on the harness's servers: one of each service, and the sandbox."""

import asyncio
import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from bench.harness import Harness
from bench.process import MeasuredProcess, make_service_account, python_process
from tablebell.testing import Database, free_port
from tablebell_local.credentials import create_signing_key
from tablebell_local.services import FCM_PROJECT, SERVICES, ServiceSpec
from tablebell_tools.unlimited import UNLIMITED


@dataclass
class Environment:
    """The addresses and secrets that `tablebell_local` builds a service's settings from."""

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
    def signing_key(self) -> Path:
        return self.directory / "jwt-private-key.pem"

    @property
    def fcm_credentials(self) -> Path:
        return self.directory / "fcm.json"


@dataclass
class Running:
    environment: Environment
    processes: dict[str, MeasuredProcess]

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.environment.port('reservation-api')}"

    @property
    def gateway(self) -> str:
        return f"ws://127.0.0.1:{self.environment.port('ws-gateway')}/ws"


@asynccontextmanager
async def running_system(harness: Harness) -> AsyncIterator[Running]:
    async with AsyncExitStack() as resources:
        database = await resources.enter_async_context(harness.database())
        amqp = await resources.enter_async_context(harness.vhost())
        directory = resources.enter_context(tempfile.TemporaryDirectory())
        environment = Environment(database, amqp, Path(directory))
        create_signing_key(environment.signing_key)
        await make_service_account(environment.fcm_credentials, FCM_PROJECT, environment.port("sandbox-fcm"))

        async def start(spec: ServiceSpec) -> MeasuredProcess:
            ports = {setting: environment.port(name) for setting, (name, _) in spec.ports.items()}
            settings = spec.settings(environment) | {name: str(port) for name, port in ports.items()} | UNLIMITED
            process = python_process(*spec.module, port=next(iter(ports.values())), settings=settings)
            return await resources.enter_async_context(process)

        started = await asyncio.gather(*(start(spec) for spec in SERVICES))
        yield Running(environment, {spec.name: process for spec, process in zip(SERVICES, started, strict=True)})
