"""Targets for Prometheus' file-based discovery: all services of an instance, with replicas and moved ports."""

import json
from collections.abc import Iterable
from pathlib import Path

from tablebell_local.service import Service


def write(path: Path, services: Iterable[Service]) -> None:
    """Replaces the file atomically, since Prometheus reads it whenever it changes."""
    groups = [
        {"targets": [service.address], "labels": {"job": service.kind}}
        for service in services
        if service.kind != "sandbox"  # it replaces providers, and has no metrics
    ]
    new = path.with_suffix(".new")
    new.write_text(json.dumps(groups, indent=2) + "\n")
    new.replace(path)
