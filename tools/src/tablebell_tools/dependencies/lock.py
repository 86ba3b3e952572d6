"""The third-party packages of uv.lock."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    registry: str | None
    """None for a package from a URL, a repository or a folder."""
    files: Sequence[str]
    hashes: Sequence[str]


def read_lock(file: Path) -> list[Package]:
    """Without the members of the workspace."""
    return [
        _package(entry)
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["package"]
        if not {"editable", "virtual"} & entry["source"].keys()
    ]


def _package(entry: dict[str, Any]) -> Package:
    files = [*entry.get("wheels", ()), *([entry["sdist"]] if "sdist" in entry else [])]
    return Package(
        entry["name"],
        entry["version"],
        entry["source"].get("registry"),
        [each["url"] for each in files if "url" in each],
        [each["hash"] for each in files if "hash" in each],
    )
