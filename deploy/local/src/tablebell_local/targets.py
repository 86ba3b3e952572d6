"""Where Prometheus finds the services of an instance, replicas and moved ports included: its file-based discovery."""

import json
from collections.abc import Iterable
from pathlib import Path

from tablebell_local.service import Service


def write(path: Path, services: Iterable[Service]) -> None:
    """Prometheus reads the file again whenever it changes; it is replaced at once, never half written."""
    groups = [
        {"targets": [service.address], "labels": {"job": service.kind}}
        for service in services
        if service.kind != "sandbox"  # it stands in for the outside, which has no metrics of ours
    ]
    new = path.with_suffix(".new")
    new.write_text(json.dumps(groups, indent=2) + "\n")
    new.replace(path)
