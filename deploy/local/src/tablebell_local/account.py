"""The account that PostgreSQL runs under. PostgreSQL refuses to run as root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tablebell_local.errors import CommandError

DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2  # capability numbers, linux/capability.h


@dataclass(frozen=True)
class Account:
    """`prefix` goes before a command to run it as this account; `own` makes the account the owner of a path."""

    prefix: tuple[str, ...]
    uid: int | None = None
    gid: int | None = None

    def own(self, path: Path) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def account_for(data: Path) -> Account:
    """The caller's account. For root: the owner of the data, or `postgres` if there is no data yet. So data that an
    ordinary user created keeps its owner."""
    if os.geteuid() != 0:
        return Account(())
    uid, gid = (data.stat().st_uid, data.stat().st_gid) if data.exists() else _postgres_user()
    drop = ("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups")
    return Account((*drop, *_traverse_options(drop, data.parent)), uid, gid)


def _postgres_user() -> tuple[int, int]:
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        raise CommandError(
            "PostgreSQL refuses to run as root, and there is no user “postgres” to run it as: "
            "create one with `useradd --system postgres`, or run this as an ordinary user"
        ) from None
    return user.pw_uid, user.pw_gid


def _traverse_options(drop: tuple[str, ...], directory: Path) -> tuple[str, ...]:
    """Other accounts cannot enter a clone below /root. The server then keeps one capability of root, to traverse
    directories. No file permission changes."""
    if subprocess.run([*drop, "test", "-x", directory], check=False).returncode == 0:
        return ()
    status = Path("/proc/self/status").read_text()
    effective = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), 16)
    for number, name in ((DAC_READ_SEARCH, "dac_read_search"), (DAC_OVERRIDE, "dac_override")):
        if effective & (1 << number):
            return (f"--inh-caps=-all,+{name}", f"--ambient-caps=-all,+{name}")
    raise CommandError(
        f"PostgreSQL cannot run as root, and its account cannot enter {directory}: "
        "clone the project to a directory that others can enter"
    )
