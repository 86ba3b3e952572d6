"""Secrets are created once, kept, and readable by their owner only."""

import stat
from pathlib import Path

from tablebell.tokens import SigningKey
from tablebell_local.credentials import KEYS, create_signing_key, load, load_or_create


def test_every_secret_is_random_and_long(tmp_path: Path) -> None:
    first = load_or_create(tmp_path / "a.env")
    second = load_or_create(tmp_path / "b.env")

    assert first.keys() == set(KEYS)
    assert not set(first.values()) & set(second.values())
    assert min(map(len, first.values())) >= 32


def test_the_file_becomes_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    path.touch(mode=0o644)

    load_or_create(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_stay_the_same(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"

    assert load_or_create(path) == load_or_create(path) == load(path)


def test_missing_names_are_added_and_existing_values_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# mine\nOLD=kept\nAPI_PORT=9000")

    values = load_or_create(path, keys=["OLD", "NEW"], defaults={"API_PORT": "8080", "WS_PORT": "8081"})

    assert values["OLD"] == "kept"
    assert values["API_PORT"] == "9000"
    assert path.read_text() == f"# mine\nOLD=kept\nAPI_PORT=9000\nWS_PORT=8081\nNEW={values['NEW']}\n"


def test_the_signing_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "key.pem"

    create_signing_key(path)
    created = path.read_bytes()
    create_signing_key(path)

    assert path.read_bytes() == created == SigningKey.load(path).private_pem
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
