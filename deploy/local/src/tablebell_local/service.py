"""A service: one Python process, healthy when /health/ready answers 200."""

import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from tablebell_local.instance import Instance
from tablebell_local.ports import PortRegistry
from tablebell_local.probe import NoResponse, get
from tablebell_local.process import ManagedProcess
from tablebell_local.processes import fingerprint
from tablebell_local.services import SERVICES, Environment, ServiceSpec


class Service(ManagedProcess):
    def __init__(
        self,
        spec: ServiceSpec,
        number: int,
        instance: Instance,
        ports: PortRegistry,
        *,
        environment: Environment,
        overrides: Mapping[str, str],
    ) -> None:
        name = replica_name(spec, number)
        self._spec = spec
        self._environment = environment
        self._overrides = overrides
        # A replica prefers ports 100 higher, where no other process listens.
        self._names = {
            setting: (port.replace(spec.name, name, 1), preferred + 100 * (number - 1))
            for setting, (port, preferred) in spec.ports.items()
        }
        super().__init__(name, instance, ports, dict(self._names.values()))

    @property
    def kind(self) -> str:
        """The name that all replicas share."""
        return self._spec.name

    @property
    def needs_schema(self) -> bool:
        return self._spec.needs_schema

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def command(self) -> list[str]:
        return [sys.executable, "-m", *self._spec.module]

    def settings(self) -> dict[str, str]:
        listening = {setting: str(self.ports[name]) for setting, (name, _) in self._names.items()}
        common = {"HOST": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
        return {**common, **self._spec.settings(self._environment), **self._overrides, **listening}

    def config(self) -> str:
        """Includes the code, so `make up` after an edit restarts the services that use it."""
        return fingerprint(
            super().config(), *(_file_versions(package) for package in (self._spec.module[0], "tablebell"))
        )

    async def problem(self) -> str | None:
        try:
            response = await get(self.ports[next(iter(self.preferred_ports))], "/health/ready")
        except NoResponse as error:
            return str(error)
        return None if response.status == 200 else f"not ready: {response.body}"


def replica_name(spec: ServiceSpec, number: int) -> str:
    return spec.name if number == 1 else f"{spec.name}-{number}"


def find_replica(name: str) -> tuple[ServiceSpec, int] | None:
    """The inverse of `replica_name`."""
    for spec in SERVICES:
        if match := re.fullmatch(rf"{spec.name}(?:-([1-9]\d*))?", name):
            return spec, int(match[1] or 1)
    return None


def _file_versions(package: str) -> list[tuple[str, int, int]]:
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).rglob("*") if file.suffix in {".py", ".sql"}]
    return sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
