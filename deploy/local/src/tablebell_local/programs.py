"""Finds the server programs of Debian's packages, and installs missing ones."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from tablebell_local.errors import CommandError
from tablebell_local.instance import PROJECT

BOOTSTRAP = PROJECT / "deploy" / "local" / "bootstrap"


class Programs:
    """Looked up on first use, so that `down` works without them."""

    @cached_property
    def postgres(self) -> Path:
        debian = Path("/usr/lib/postgresql").glob("*/bin/postgres")
        newest_first = sorted(debian, key=lambda path: _number(path.parts[-3]), reverse=True)
        return _first(newest_first, "postgres")

    @cached_property
    def rabbitmq_server(self) -> Path:
        # Debian's script in /usr/sbin changes the user and the directory; the real one does neither.
        return _first(Path("/usr/lib/rabbitmq").glob("bin/rabbitmq-server"), "rabbitmq-server")

    @cached_property
    def rabbitmqctl(self) -> Path:
        return _first(Path("/usr/lib/rabbitmq").glob("bin/rabbitmqctl"), "rabbitmqctl")

    @cached_property
    def epmd(self) -> Path:
        return _first(sorted(Path("/usr/lib/erlang").glob("erts-*/bin/epmd")), "epmd")

    def ensure(self) -> None:
        try:
            self._all()
        except CommandError:
            if subprocess.run([BOOTSTRAP, "servers"], check=False).returncode != 0:
                raise
            self._all()

    def _all(self) -> None:
        for program in (self.postgres, self.rabbitmq_server, self.epmd):
            if not program.exists():
                raise CommandError(f"{program} no longer exists")


def _number(version: str) -> float:
    return float(version) if re.fullmatch(r"\d+(\.\d+)?", version) else 0


def _first(paths: Iterable[Path], name: str) -> Path:
    found = next(iter(paths), None) or shutil.which(name)
    if found is None:
        raise CommandError(f"the program “{name}” is not installed and could not be installed")
    return Path(found).resolve()
