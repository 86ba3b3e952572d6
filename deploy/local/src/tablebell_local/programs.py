"""Finds the server programs of Debian's packages, and installs missing ones."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tablebell_local.errors import CommandError
from tablebell_local.instance import PROJECT

BOOTSTRAP = PROJECT / "deploy" / "local" / "bootstrap"
# Debian's rabbitmq-server in /usr/sbin changes the user and the directory; the real one does neither.
PLACES = {
    "postgres": "/usr/lib/postgresql/*/bin/postgres",
    "rabbitmq-server": "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "rabbitmqctl": "/usr/lib/rabbitmq/bin/rabbitmqctl",
}


@cache
def program(name: str) -> Path:
    """The newest version. Looked up on first use, so that `down` works without it."""
    found = max(Path("/").glob(PLACES[name][1:]), key=_version, default=None) or shutil.which(name)
    if found is None:
        raise CommandError(f"the program “{name}” is not installed and could not be installed")
    return Path(found).resolve()


def ensure_installed() -> None:
    try:
        for name in PLACES:
            program(name)
    except CommandError:
        if subprocess.run([BOOTSTRAP, "servers"], check=False).returncode != 0:
            raise
        for name in PLACES:
            program(name)


def _version(path: Path) -> float:
    """PostgreSQL's version is the name of a directory."""
    return next((float(part) for part in path.parts if part.replace(".", "", 1).isdigit()), 0)
