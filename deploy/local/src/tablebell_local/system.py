"""The whole of an instance: the servers, the schema and the services that stand on them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from tablebell_local import logfiles, targets
from tablebell_local.failure import Failure
from tablebell_local.instance import Instance
from tablebell_local.process import ManagedProcess, bring_up
from tablebell_local.processes import find, inherited_environment
from tablebell_local.progress import Progress
from tablebell_local.service import Service, find_replica
from tablebell_local.services import FCM_PROJECT, SERVICES, ServiceSpec
from tablebell_local.stack import Stack, together

STEP_LIMIT = 300


class System:
    """Implements `Environment`, which the services' settings are made from."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.stack = Stack(instance)

    def database_url(self, service: str) -> str:
        return self.stack.replication.url_of(service)

    def secret(self, name: str) -> str:
        return self.stack.secrets[name]

    def port(self, name: str) -> int:
        return self.stack.ports[name]

    @property
    def amqp_url(self) -> str:
        return self.stack.rabbitmq.url

    @property
    def fcm_credentials(self) -> Path:
        return self.instance.path("fcm-service-account.json")

    def services(
        self, scale: Mapping[str, int] | None = None, overrides: Mapping[str, str] | None = None
    ) -> list[Service]:
        """One of each, or as many as `scale` says; with settings of the caller's choice above our own."""
        counts = {spec.name: 1 for spec in SERVICES} | dict(scale or {})
        return [
            self._service(spec, number + 1, overrides or {}) for spec in SERVICES for number in range(counts[spec.name])
        ]

    def present(self) -> list[ManagedProcess]:
        """Every part that there should be, and the replicas that there are."""
        expected = self.services()
        names = {part.name for part in expected}
        running = {process.part for process in find(self.instance.directory)}
        replicas = [self._service(*found, {}) for name in sorted(running - names) if (found := find_replica(name))]
        return [*self.stack.servers, *expected, *replicas]

    async def up(
        self, board: Progress, scale: Mapping[str, int], only: Collection[str], overrides: Mapping[str, str]
    ) -> None:
        services = self.services(scale, overrides)
        unknown = (set(only) | set(scale)) - {service.name for service in services}
        if unknown:
            raise Failure(f"there is no part {', '.join(sorted(unknown))}")
        self.stack.prepare([*self.stack.servers, *services], board)
        self._write_fcm_credentials()
        await self.stack.servers_up(board)
        await self._end_surplus({service.name for service in services}, board)
        targets.write(self.instance.path("targets.json"), services)

        async def after_schema() -> None:
            await self.migrate(board)
            await together(*(bring_up(service, board) for service in chosen if service.needs_schema))

        chosen = [service for service in services if not only or service.name in only]
        await together(after_schema(), *(bring_up(service, board) for service in chosen if not service.needs_schema))

    async def migrate(self, board: Progress) -> None:
        """Brings the schema up to date and adds the demo's people; both change nothing the second time."""
        passwords = {name: value for name, value in self.stack.secrets.items() if name.endswith("_DB_PASSWORD")}
        environment = {"DATABASE_URL": self.stack.replication.url(), **passwords}
        board.set("schema", "migrating")
        try:
            for step in ("upgrade", "demo-data"):
                await asyncio.to_thread(self._run, "schema", ["tablebell_migrations", step], environment)
        except Failure as failure:
            board.failed("schema", str(failure))
            raise
        board.ready("schema")

    def _write_fcm_credentials(self) -> None:
        token_uri = f"http://127.0.0.1:{self.port('sandbox-fcm')}/token"
        if self.fcm_credentials.exists():
            if json.loads(self.fcm_credentials.read_text()).get("token_uri") == token_uri:
                return
            self.fcm_credentials.unlink()
        command = ["tablebell_sandbox", "service-account", "--project", FCM_PROJECT]
        self._run("sandbox", [*command, "--token-uri", token_uri, "--out", str(self.fcm_credentials)], {})

    def _run(self, part: str, module: list[str], environment: Mapping[str, str]) -> None:
        log = self.instance.log(part)
        begin = logfiles.begin(log)
        try:
            with log.open("ab") as output:
                subprocess.run(
                    [sys.executable, "-m", *module],
                    env={**inherited_environment(), **environment},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    check=True,
                    timeout=STEP_LIMIT,
                )
        except subprocess.CalledProcessError as error:
            raise Failure(f"`{' '.join(module[:2])}` failed with exit code {error.returncode}", log, begin) from None
        except subprocess.TimeoutExpired:
            raise Failure(f"`{' '.join(module[:2])}` took more than {STEP_LIMIT} s", log, begin) from None

    async def _end_surplus(self, wanted: Collection[str], board: Progress) -> None:
        servers = {part.name for part in self.stack.servers}
        running = {process.part for process in find(self.instance.directory)}
        await together(*(self.stack.end(name, board) for name in sorted(running - servers - set(wanted))))

    def _service(self, spec: ServiceSpec, number: int, overrides: Mapping[str, str]) -> Service:
        return Service(spec, number, self.instance, self.stack.ports, site=self, overrides=overrides)
