import stat
import time
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tablebell.tokens import SigningKey
from tablebell_local import compose
from tablebell_local.compose import Compose, Container
from tablebell_local.credentials import KEYS, load
from tablebell_local.instance import PROJECT


def test_env_gets_every_variable_of_the_example_with_a_value(tmp_path: Path) -> None:
    (tmp_path / ".env.example").write_text((PROJECT / ".env.example").read_text())

    values = Compose(tmp_path).write_environment()

    assert values.keys() == load(PROJECT / ".env.example").keys() >= set(KEYS)
    assert all(values.values())
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert Compose(tmp_path).write_environment() == values


def test_the_signing_key_can_be_read_in_a_container_and_is_protected_on_the_host(tmp_path: Path) -> None:
    (tmp_path / ".env.example").write_text("INTERNAL_API_TOKEN=\n")

    key = Compose(tmp_path).signing_key

    assert SigningKey.load(key).jwks == SigningKey.load(Compose(tmp_path).signing_key).jwks
    assert stat.S_IMODE(key.stat().st_mode) == 0o644
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    mounted = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["secrets"]["jwt-private-key"]["file"]
    assert tmp_path / mounted == key


@pytest.mark.parametrize(
    ("container", "is_healthy", "has_failed"),
    [
        (Container("api", "running", 0, "healthy"), True, False),
        (Container("api", "running", 0, "starting"), False, False),
        (Container("api", "running", 0, "unhealthy"), False, False),
        (Container("prometheus", "running", 0, "-"), True, False),
        (Container("migrations", "exited", 0, "-"), True, False),
        (Container("migrations", "exited", 1, "-"), False, True),
    ],
)
def test_a_container_is_healthy_starting_or_failed(container: Container, is_healthy: bool, has_failed: bool) -> None:
    assert (container.is_healthy, container.has_failed) == (is_healthy, has_failed)


@pytest.mark.parametrize(("script", "answers"), [("exit 0", True), ("exit 1", False), ("exec sleep 30", False)])
def test_an_engine_that_refuses_or_hangs_counts_as_absent(
    script: str, answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\n{script}\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    started = time.monotonic()

    assert compose.engine_answers() is answers
    assert time.monotonic() - started < 5
