"""Which of the two ways to run the system a command means: containers or local processes."""

import sys
from collections.abc import Collection, Mapping
from typing import Protocol

from tablebell_local.compose import Compose, engine_answers
from tablebell_local.failure import Failure
from tablebell_local.instance import Instance
from tablebell_local.local import Local
from tablebell_local.processes import find


class Mode(Protocol):
    def up(self, scale: Mapping[str, int], only: Collection[str]) -> None: ...
    def down(self) -> None: ...
    def status(self) -> bool: ...
    def logs(self, part: str | None, count: int, *, follow: bool) -> None: ...
    def addresses(self) -> dict[str, str]: ...
    def jwt_secret(self) -> str: ...
    def migrate(self) -> None: ...


def choose(requested: str, instance: Instance) -> Mode:
    """What was asked for; else what already runs locally; else containers, where an engine answers."""
    if requested not in {"", "docker", "local"}:
        raise Failure(f"MODE={requested} is neither docker nor local")
    compose = Compose()
    if requested == "docker" and not compose.is_possible:
        print("There is no docker-compose.yml: using local processes instead.", file=sys.stderr)
    if requested == "docker" and compose.is_possible:
        return compose
    if requested == "" and compose.is_possible and not find(instance.directory) and engine_answers():
        return compose
    return Local(instance)


def running_everywhere(requested: str, instance: Instance) -> list[Mode]:
    """For `down`, which is to leave nothing running, however it was started."""
    compose = Compose()
    containers: list[Mode] = [compose] if compose.is_possible and engine_answers() else []
    return containers if requested == "docker" and containers else [Local(instance), *containers]
