"""`make dependencies` and `make sbom`."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from tablebell_local.errors import CommandError
from tablebell_local.instance import PROJECT
from tablebell_tools.dependencies.advisories import (
    Advisory,
    download_advisories,
    read_advisories,
    write_advisories,
)
from tablebell_tools.dependencies.licences import ALLOWED, licences
from tablebell_tools.dependencies.lock import Package, read_lock

LOCK = PROJECT / "uv.lock"
ADVISORIES = PROJECT / "tools" / "advisories.json"
REGISTRY = "https://pypi.org/simple"


def check_dependencies() -> int:
    """Needs no network. Returns the exit code."""
    packages, known = read_lock(LOCK), read_advisories(ADVISORIES)
    problems = [
        *find_unpinned(packages),
        *find_vulnerable(packages, known.advisories),
        *find_unlicensed(packages),
        *_outdated_lock(),
    ]
    for problem in problems:
        print(f"✘ {problem}")
    age = (date.today() - known.date).days  # noqa: DTZ011 - a day is exact enough
    print(f"{len(packages)} packages, {len(known.advisories)} advisories ({known.source}, {age} days old)")
    return 1 if problems else 0


def refresh_advisories() -> None:
    """Needs a network."""
    found = download_advisories(read_lock(LOCK))
    write_advisories(ADVISORIES, found)
    print(f"{len(found.advisories)} advisories written to {ADVISORIES.relative_to(PROJECT)}")


def write_sbom(file: Path) -> None:
    """CycloneDX 1.5, of everything that the services and tools need at run time."""
    _uv("export", "--format", "cyclonedx1.5", "--all-packages", "--no-dev", "--frozen", "--quiet", "-o", str(file))
    print(f"written to {file}")


def find_unpinned(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        if package.registry != REGISTRY:
            yield f"{package.name} {package.version} is not from {REGISTRY}"
        if not package.files or len(package.hashes) < len(package.files):
            yield f"{package.name} {package.version} has a file without a hash"


def find_vulnerable(packages: Sequence[Package], advisories: Sequence[Advisory]) -> Iterator[str]:
    for package in packages:
        for advisory in advisories:
            if advisory.affects(package):
                remedy = f"fixed in {advisory.fixed}" if advisory.fixed else "no fixed version"
                yield f"{package.name} {package.version}: {advisory.id}, {remedy}: {advisory.summary}"


def find_unlicensed(packages: Sequence[Package]) -> Iterator[str]:
    for package in packages:
        stated = licences(package.name)
        if stated is not None and not stated <= ALLOWED:
            yield f"{package.name} {package.version} has a licence that is not allowed: {', '.join(stated - ALLOWED)}"


def _outdated_lock() -> Iterator[str]:
    try:
        _uv("lock", "--check", "--offline")
    except CommandError as error:
        yield f"uv.lock does not match the pyproject.toml files: {error}"


def _uv(*arguments: str) -> None:
    program = shutil.which("uv") or PROJECT / ".local" / ".uv" / "bin" / "uv"
    done = subprocess.run([program, *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "uv failed")
