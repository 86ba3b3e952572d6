"""Files of NAME=value lines with secrets in them: random, made once, readable by their owner alone."""

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from tablebell_local.failure import Failure

KEYS = (
    "POSTGRES_PASSWORD",
    "AMQP_PASSWORD",
    "JWT_SECRET",
    "RESERVATION_API_DB_PASSWORD",
    "EVENT_RELAY_DB_PASSWORD",
    "NOTIFICATION_FANOUT_DB_PASSWORD",
    "CHANNEL_DISPATCHER_DB_PASSWORD",
    "SMS_TOKEN",
)


class Secrets(dict[str, str]):
    """What is not there yet is a matter for whoever runs the command, not a bug."""

    def __missing__(self, name: str) -> str:
        raise Failure(f"there is no {name} yet: start the system once with `make up`")


def load_or_create(path: Path, keys: Iterable[str] = KEYS, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Keeps what the file has and adds what it lacks, so that a newer checkout keeps the older one's data:
    a random value for each key, and the defaults as they are."""
    known = load(path)
    wanted = {**(defaults or {}), **{key: secrets.token_urlsafe(32) for key in keys}}
    missing = {name: value for name, value in wanted.items() if name not in known}
    if missing:
        _append(path, missing)
    path.chmod(0o600)
    return known | missing


def load(path: Path) -> dict[str, str]:
    """A name without a value counts as one that is there and empty."""
    if not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name: value.strip("\"'") for name, value in pairs}


def _append(path: Path, values: Mapping[str, str]) -> None:
    """Through a second file: a crash leaves either the old content or the new, never half of it."""
    before = path.read_text() if path.exists() else ""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(before + ("\n" if before and not before.endswith("\n") else ""))
        file.writelines(f"{name}={value}\n" for name, value in values.items())
    temporary.rename(path)
