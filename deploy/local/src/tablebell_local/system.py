"""A whole instance as local processes: the servers, the schema and the services."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tablebell_local import logfiles, status
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.processes import find, run_to_log
from tablebell_local.programs import ensure_installed
from tablebell_local.progress import say
from tablebell_local.service import Service, replica_name
from tablebell_local.services import FCM_PROJECT, MAX_REPLICAS, SERVICES
from tablebell_local.stack import Stack, run_all

STEP_LIMIT = 300.0


class System:
    """One of the two modes. Also the `Environment` that the services' settings are made from."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.stack = Stack(instance)
        self.fcm_credentials = instance.path("fcm-service-account.json")

    def up(self, scale: Mapping[str, int], overrides: Mapping[str, str]) -> None:
        async def run() -> None:
            async with self.instance.locked():
                await self.start(scale, overrides)

        asyncio.run(run())

    def down(self) -> None:
        if self.instance.directory.exists():
            asyncio.run(self.stack.stop_everything())

    def status(self) -> bool:
        return asyncio.run(status.show(self.processes()))

    def logs(self, name: str | None, count: int, *, follow: bool) -> None:
        existing = sorted(self.instance.path("logs").glob("*.log"))
        chosen = [path for path in existing if name in {None, path.stem}]
        if not chosen:
            names = ", ".join(path.stem for path in existing) or "none"
            raise CommandError(f"there is no such log; available: {names}")
        options = [f"--lines={count}", *(["--follow=name", "--retry"] if follow else [])]
        subprocess.run(["tail", *options, *map(str, chosen)], check=False)

    def migrate(self) -> None:
        async def run() -> None:
            async with self.instance.locked():
                await self.migrate_schema()

        self._require(self.stack.replication.primary)
        asyncio.run(run())

    def addresses(self) -> dict[str, str]:
        self._require(*self.processes())
        return {
            "DATABASE_URL": self.database_url(),
            "AMQP_URL": self.amqp_url(),
            "API_URL": f"http://127.0.0.1:{self.port('reservation-api')}",
            "WS_URL": f"ws://127.0.0.1:{self.port('ws-gateway')}",
            "SANDBOX_URL": f"http://127.0.0.1:{self.port('sandbox')}",
        }

    def database_url(self, service: str | None = None) -> str:
        """With a service's role; without a service, the owner's, which needs only PostgreSQL to run."""
        if not service:
            self._require(self.stack.replication.primary)
        return self.stack.replication.url(service=service)

    def amqp_url(self, service: str | None = None) -> str:
        """With a service's user; without a service, the operators', which needs only RabbitMQ to run."""
        if not service:
            self._require(self.stack.rabbitmq)
        return self.stack.rabbitmq.url(service)

    def secret(self, name: str) -> str:
        return self.instance.secrets[name]

    @property
    def signing_key(self) -> Path:
        if not self.instance.signing_key.exists():
            raise CommandError("there is no key for tokens yet: start the system once with `make up`")
        return self.instance.signing_key

    def port(self, name: str) -> int:
        return self.instance.ports[name]

    def services(
        self, scale: Mapping[str, int] | None = None, overrides: Mapping[str, str] | None = None
    ) -> list[Service]:
        """One of each, or as many as `scale` says. `overrides` win over the default settings."""
        return [
            Service(spec, number + 1, self.instance, self, overrides or {})
            for spec in SERVICES
            for number in range((scale or {}).get(spec.name, 1))
        ]

    def processes(self) -> list[ManagedProcess]:
        """All expected processes, with as many replicas as run."""
        running, numbers = self._running(), range(2, MAX_REPLICAS + 1)
        scale = {
            spec.name: max((number for number in numbers if replica_name(spec, number) in running), default=1)
            for spec in SERVICES
        }
        return [*self.stack.servers, *self.services(scale)]

    async def start(self, scale: Mapping[str, int], overrides: Mapping[str, str]) -> None:
        """Brings up the servers, the schema and the services. The caller locks the instance."""
        services = self.services(scale, overrides)
        wanted = {service.name for service in services}
        if unknown := set(scale) - wanted:
            raise CommandError(f"there is no service {', '.join(sorted(unknown))}")
        ensure_installed()
        self.stack.prepare([*self.stack.servers, *services])
        self._write_fcm_credentials()
        await self.stack.servers_up()
        surplus = self._running() - wanted - {process.name for process in self.stack.servers}
        await run_all(*(self.stack.stop(name) for name in sorted(surplus)))
        self.write_targets(services)

        async def after_schema() -> None:
            await self.migrate_schema()
            await run_all(*(bring_up(service) for service in services if service.spec.needs_schema))

        await run_all(after_schema(), *(bring_up(service) for service in services if not service.spec.needs_schema))

    async def migrate_schema(self) -> None:
        """Brings the schema up to date and adds the demo data. Both are idempotent."""
        passwords = {name: value for name, value in self.instance.secrets.items() if name.endswith("_DB_PASSWORD")}
        environment = {"DATABASE_URL": self.stack.replication.url(), **passwords}
        for step in ("upgrade", "demo-data"):
            await asyncio.to_thread(self._run, "schema", ["tablebell_migrations", step], environment)
        say("schema", "ready")

    def write_targets(self, services: Iterable[Service]) -> None:
        """Lists all services, with replicas and moved ports, for Prometheus' file-based discovery. The file is replaced
        atomically, since Prometheus reads it whenever it changes."""
        groups = [
            {"targets": [service.address], "labels": {"job": service.spec.name}}
            for service in services
            if service.spec.name != "sandbox"  # it stands in for providers, which have none of our metrics
        ]
        new = self.instance.path("targets.new")
        new.write_text(json.dumps(groups, indent=2) + "\n")
        new.replace(self.instance.path("targets.json"))

    def _write_fcm_credentials(self) -> None:
        token_uri = f"http://127.0.0.1:{self.port('sandbox-fcm')}/token"
        if self.fcm_credentials.exists():
            if json.loads(self.fcm_credentials.read_text()).get("token_uri") == token_uri:
                return
            self.fcm_credentials.unlink()
        command = ["tablebell_sandbox", "service-account", "--project", FCM_PROJECT]
        self._run("sandbox", [*command, "--token-uri", token_uri, "--out", str(self.fcm_credentials)], {})

    def _run(self, log_name: str, module: list[str], environment: Mapping[str, str]) -> None:
        log = self.instance.log(log_name)
        run_to_log([sys.executable, "-m", *module], log, logfiles.begin(log), environment, STEP_LIMIT)

    def _running(self) -> set[str]:
        return {process.name for process in find(self.instance.directory)}

    def _require(self, *processes: ManagedProcess) -> None:
        if stopped := [process.name for process in processes if not process.pids()]:
            raise CommandError(f"the system is not up: {', '.join(stopped)} not running. Start it with `make up`")
