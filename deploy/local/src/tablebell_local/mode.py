"""Chooses between the two modes: containers or local processes."""

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from tablebell_local.compose import Compose, engine_answers
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.local import Local
from tablebell_local.processes import find


class Mode(Protocol):
    def up(self, scale: Mapping[str, int], only: Collection[str], overrides: Mapping[str, str]) -> None: ...
    def down(self) -> None: ...
    def status(self) -> bool: ...
    def logs(self, name: str | None, count: int, *, follow: bool) -> None: ...
    def addresses(self) -> dict[str, str]: ...
    def database_url(self) -> str: ...
    def amqp_url(self) -> str: ...
    def signing_key(self) -> Path: ...
    def migrate(self) -> None: ...


def choose(requested: str, instance: Instance) -> Mode:
    """The requested mode. Otherwise local if it already runs locally or no Docker engine answers, else Docker."""
    _check(requested)
    compose = Compose()
    if requested == "docker" and not compose.is_possible:
        print("There is no docker-compose.yml: using local processes instead.", file=sys.stderr)
    if not compose.is_possible or requested == "local":
        return Local(instance)
    if requested == "docker" or (not find(instance.directory) and engine_answers()):
        return compose
    return Local(instance)


def running_everywhere(requested: str, instance: Instance) -> list[Mode]:
    """For `down`, which stops the system in every mode that may be running."""
    _check(requested)
    compose = Compose()
    modes: list[Mode] = []
    if requested != "docker" or not compose.is_possible:
        modes.append(Local(instance))
    if compose.is_possible and (requested == "docker" or (requested == "" and engine_answers())):
        modes.append(compose)
    return modes


def _check(requested: str) -> None:
    if requested not in {"", "docker", "local"}:
        raise CommandError(f"MODE={requested} is not valid: use docker or local")
