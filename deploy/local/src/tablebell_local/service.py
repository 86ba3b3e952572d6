"""A service: one Python process, healthy when /health/ready answers 200."""

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from tablebell_local.instance import Instance
from tablebell_local.process import ManagedProcess, http_problem
from tablebell_local.processes import fingerprint
from tablebell_local.services import Environment, ServiceSpec


class Service(ManagedProcess):
    def __init__(
        self,
        spec: ServiceSpec,
        number: int,
        instance: Instance,
        environment: Environment,
        overrides: Mapping[str, str],
    ) -> None:
        name = replica_name(spec, number)
        self.spec = spec
        self._environment = environment
        self._overrides = overrides
        # A replica prefers ports 100 higher, where no other process listens.
        self._names = {
            setting: (port.replace(spec.name, name, 1), preferred + 100 * (number - 1))
            for setting, (port, preferred) in spec.ports.items()
        }
        super().__init__(name, instance, dict(self._names.values()))

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def command(self) -> list[str]:
        return [sys.executable, "-m", *self.spec.module]

    def settings(self) -> dict[str, str]:
        listening = {setting: str(self.ports[name]) for setting, (name, _) in self._names.items()}
        common = {"HOST": "127.0.0.1", "PYTHONUNBUFFERED": "1"}
        return {**common, **self.spec.settings(self._environment), **self._overrides, **listening}

    def config(self) -> str:
        """Includes the code, so `make up` after an edit restarts the services that use it."""
        return fingerprint(
            super().config(), *(_file_versions(package) for package in (self.spec.module[0], "tablebell"))
        )

    async def problem(self) -> str | None:
        return await http_problem(self.ports[next(iter(self.preferred_ports))], "/health/ready")


def replica_name(spec: ServiceSpec, number: int) -> str:
    return spec.name if number == 1 else f"{spec.name}-{number}"


def _file_versions(package: str) -> list[tuple[str, int, int]]:
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).rglob("*") if file.suffix in {".py", ".sql"}]
    return sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
