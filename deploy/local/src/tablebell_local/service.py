"""A service as a part of the stack: one Python process, healthy when it says that it is ready."""

import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from tablebell_local.instance import Instance
from tablebell_local.ports import PortBook
from tablebell_local.probe import NoAnswer, get
from tablebell_local.process import ManagedProcess
from tablebell_local.processes import fingerprint
from tablebell_local.services import SERVICES, Environment, ServiceSpec


class Service(ManagedProcess):
    def __init__(
        self,
        spec: ServiceSpec,
        number: int,
        instance: Instance,
        ports: PortBook,
        *,
        site: Environment,
        overrides: Mapping[str, str],
    ) -> None:
        name = replica_name(spec, number)
        self._spec = spec
        self._site = site
        self._overrides = overrides
        # A replica's ports are a hundred further on, where no other part wants to be.
        self._names = {
            setting: (port.replace(spec.name, name, 1), wish + 100 * (number - 1))
            for setting, (port, wish) in spec.ports.items()
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
        return {**common, **self._spec.settings(self._site), **self._overrides, **listening}

    def config(self) -> str:
        """Changed code counts as changed settings: `make up` after an edit starts what it touches anew."""
        return fingerprint(super().config(), *(_state_of(package) for package in (self._spec.module[0], "tablebell")))

    async def problem(self) -> str | None:
        try:
            answer = await get(self.ports[next(iter(self.preferred_ports))], "/health/ready")
        except NoAnswer as error:
            return str(error)
        return None if answer.status == 200 else f"not ready: {answer.body}"


def replica_name(spec: ServiceSpec, number: int) -> str:
    return spec.name if number == 1 else f"{spec.name}-{number}"


def find_replica(name: str) -> tuple[ServiceSpec, int] | None:
    """The reverse of `replica_name`."""
    for spec in SERVICES:
        if match := re.fullmatch(rf"{spec.name}(?:-([1-9]\d*))?", name):
            return spec, int(match[1] or 1)
    return None


def _state_of(package: str) -> list[tuple[str, int, int]]:
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).rglob("*") if file.suffix in {".py", ".sql"}]
    return sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
