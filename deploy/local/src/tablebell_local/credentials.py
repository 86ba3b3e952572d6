"""The secrets of an instance: random, made once, readable by their owner alone."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

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


def load_or_create(path: Path, keys: Iterable[str] = KEYS) -> dict[str, str]:
    """Keeps what the file has and adds what it lacks, so that a newer checkout keeps the older one's data."""
    known = load(path)
    missing = [key for key in keys if key not in known]
    if missing:
        known |= {key: secrets.token_urlsafe(32) for key in missing}
        _write(path, known)
    path.chmod(0o600)
    return known


def load(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def _write(path: Path, values: dict[str, str]) -> None:
    """Through a temporary file: a crash leaves either the old secrets or the new, never half of them."""
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{key}={value}\n" for key, value in values.items())
    temporary.rename(path)
