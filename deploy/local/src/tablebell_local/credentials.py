"""Files of NAME=value lines with random secrets, and the key that signs tokens: created once, readable by their owner
only."""

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from tablebell.broker_users import PERMISSIONS, password_variable
from tablebell.tokens import SigningKey
from tablebell_local.errors import CommandError

KEYS = (
    "POSTGRES_PASSWORD",
    "INTERNAL_API_TOKEN",
    "RESERVATION_API_DB_PASSWORD",
    "EVENT_RELAY_DB_PASSWORD",
    "NOTIFICATION_FANOUT_DB_PASSWORD",
    "CHANNEL_DISPATCHER_DB_PASSWORD",
    *(password_variable(service) for service in PERMISSIONS),
    "SMS_TOKEN",
)


class Secrets(dict[str, str]):
    """A missing secret is an error of the user, who has not started the system yet."""

    def __missing__(self, name: str) -> str:
        raise CommandError(f"there is no {name} yet: start the system once with `make up`")


def load_or_create(path: Path, keys: Iterable[str] = KEYS, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Adds the names that the file lacks: a random value for each key, and the defaults. Existing values stay, so a
    newer checkout can use the data of an older one."""
    known = load(path)
    wanted = {**(defaults or {}), **{key: secrets.token_urlsafe(32) for key in keys}}
    missing = {name: value for name, value in wanted.items() if name not in known}
    if missing:
        before = path.read_text().rstrip("\n") + "\n" if path.exists() else ""
        _write(path, before + "".join(f"{name}={value}\n" for name, value in missing.items()), 0o600)
    path.chmod(0o600)
    return known | missing


def create_signing_key(path: Path, *, mode: int = 0o600) -> None:
    """A new EC key of the curve P-256 in PEM format, unless the file exists."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(path, SigningKey.generate().private_pem.decode(), mode)


def load(path: Path) -> dict[str, str]:
    """A name without a value is present and empty."""
    if not path.exists():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name: value.strip("\"'") for name, value in pairs}


def _write(path: Path, text: str, mode: int) -> None:
    """Replaces the file atomically."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(text)
    new.chmod(mode)
    new.rename(path)
