"""Chooses between the two modes: containers or local processes."""

from typing import TypeAlias

from tablebell_local.compose import Compose, engine_answers
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.processes import find
from tablebell_local.system import System

Mode: TypeAlias = Compose | System


def choose(requested: str, instance: Instance) -> Mode:
    """The requested mode. Otherwise local if it already runs locally or no Docker engine answers, else Docker."""
    if _may_use_docker(requested, instance) and (requested or not find(instance.directory)):
        return Compose()
    return System(instance)


def running_everywhere(requested: str, instance: Instance) -> list[Mode]:
    """For `down`, which stops the system in every mode that may be running."""
    local: list[Mode] = [] if requested == "docker" else [System(instance)]
    return [*local, Compose()] if _may_use_docker(requested, instance) else local


def _may_use_docker(requested: str, instance: Instance) -> bool:
    """Only the developer's instance can be a system of containers: stopping a test's instance must not stop them."""
    if requested not in {"", "docker", "local"}:
        raise CommandError(f"MODE={requested} is not valid: use docker or local")
    return requested == "docker" or (not requested and instance.is_developers and engine_answers())
