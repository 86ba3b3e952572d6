"""A whole instance: the servers, the schema and the services."""

import asyncio
import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from tablebell_local import logfiles, targets
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.processes import find, run_to_log
from tablebell_local.progress import Progress
from tablebell_local.service import Service, find_replica
from tablebell_local.services import FCM_PROJECT, SERVICES, ServiceSpec
from tablebell_local.stack import Stack, run_all

STEP_LIMIT = 300.0


class System:
    """Implements `Environment`."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.stack = Stack(instance)

    def database_url(self, service: str) -> str:
        return self.stack.replication.url_of(service)

    def amqp_url(self, service: str) -> str:
        return self.stack.rabbitmq.url_of(service)

    def secret(self, name: str) -> str:
        return self.stack.secrets[name]

    def port(self, name: str) -> int:
        return self.stack.ports[name]

    @property
    def signing_key(self) -> Path:
        return self.instance.signing_key

    @property
    def fcm_credentials(self) -> Path:
        return self.instance.path("fcm-service-account.json")

    def services(
        self, scale: Mapping[str, int] | None = None, overrides: Mapping[str, str] | None = None
    ) -> list[Service]:
        """One of each, or as many as `scale` says. `overrides` win over the default settings."""
        counts = {spec.name: 1 for spec in SERVICES} | dict(scale or {})
        return [
            self._service(spec, number + 1, overrides or {}) for spec in SERVICES for number in range(counts[spec.name])
        ]

    def processes(self) -> list[ManagedProcess]:
        """All expected processes, and the replicas that run."""
        expected = self.services()
        names = {process.name for process in expected}
        running = {process.name for process in find(self.instance.directory)}
        replicas = [self._service(*found, {}) for name in sorted(running - names) if (found := find_replica(name))]
        return [*self.stack.servers, *expected, *replicas]

    async def up(
        self, progress: Progress, scale: Mapping[str, int], only: Collection[str], overrides: Mapping[str, str]
    ) -> None:
        services = self.services(scale, overrides)
        unknown = (set(only) | set(scale)) - {service.name for service in services}
        if unknown:
            raise CommandError(f"there is no service {', '.join(sorted(unknown))}")
        self.stack.prepare([*self.stack.servers, *services], progress)
        self._write_fcm_credentials()
        await self.stack.servers_up(progress)
        await self._stop_surplus({service.name for service in services}, progress)
        targets.write(self.instance.path("targets.json"), services)

        async def after_schema() -> None:
            await self.migrate(progress)
            await run_all(*(bring_up(service, progress) for service in chosen if service.needs_schema))

        chosen = [service for service in services if not only or service.name in only]
        await run_all(after_schema(), *(bring_up(service, progress) for service in chosen if not service.needs_schema))

    async def migrate(self, progress: Progress) -> None:
        """Brings the schema up to date and adds the demo data. Both are idempotent."""
        passwords = {name: value for name, value in self.stack.secrets.items() if name.endswith("_DB_PASSWORD")}
        environment = {"DATABASE_URL": self.stack.replication.url(), **passwords}
        progress.set("schema", "migrating")
        try:
            for step in ("upgrade", "demo-data"):
                await asyncio.to_thread(self._run, "schema", ["tablebell_migrations", step], environment)
        except CommandError as error:
            progress.failed("schema", str(error))
            raise
        progress.ready("schema")

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
        begin = logfiles.begin(log)
        command = [sys.executable, "-m", *module]
        title = " ".join(module[:2])
        run_to_log(title, command, log=log, begin=begin, environment=environment, limit=STEP_LIMIT)

    async def _stop_surplus(self, wanted: Collection[str], progress: Progress) -> None:
        servers = {process.name for process in self.stack.servers}
        running = {process.name for process in find(self.instance.directory)}
        await run_all(*(self.stack.stop(name, progress) for name in sorted(running - servers - set(wanted))))

    def _service(self, spec: ServiceSpec, number: int, overrides: Mapping[str, str]) -> Service:
        return Service(spec, number, self.instance, self.stack.ports, environment=self, overrides=overrides)
