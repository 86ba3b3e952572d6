"""The account that PostgreSQL runs under. PostgreSQL refuses to run as root."""

import os
import pwd
import subprocess
from pathlib import Path

from tablebell_local.errors import CommandError

# Other accounts cannot enter a clone below /root. The server then keeps one capability of root, to traverse
# directories; a container's root may lack the first. No file permission changes.
CAPABILITIES = ("", "dac_read_search", "dac_override")


def command_prefix(data: Path) -> list[str]:
    """What goes before a command to run it as the owner of the data. Nothing, unless the caller is root."""
    if os.geteuid() != 0:
        return []
    uid, gid = _owner(data)
    for capability in CAPABILITIES:
        kept = [f"--{kind}-caps=-all,+{capability}" for kind in ("inh", "ambient") if capability]
        prefix = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", *kept]
        # `test -x` would look at the permissions only, and not at capabilities.
        if subprocess.run([*prefix, "stat", f"{data.parent}/."], capture_output=True, check=False).returncode == 0:
            return prefix
    raise CommandError(
        f"PostgreSQL cannot run as root, and its account cannot enter {data.parent}: "
        "clone the project to a directory that others can enter"
    )


def give(path: Path, data: Path) -> None:
    """Makes the account that owns the data the owner of another file."""
    if os.geteuid() == 0:
        os.chown(path, *_owner(data))


def _owner(data: Path) -> tuple[int, int]:
    """The user `postgres` if there is no data yet. Data that an ordinary user created keeps its owner."""
    if data.exists():
        return data.stat().st_uid, data.stat().st_gid
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        raise CommandError(
            "PostgreSQL refuses to run as root, and there is no user “postgres” to run it as: "
            "create one with `useradd --system postgres`, or run this as an ordinary user"
        ) from None
    return user.pw_uid, user.pw_gid
