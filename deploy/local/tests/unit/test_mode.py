"""Which commands use containers, and which local processes."""

from pathlib import Path

import pytest

from tablebell_local import mode
from tablebell_local.compose import Compose
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.system import System


@pytest.mark.parametrize(
    ("requested", "answers", "chosen", "stopped"),
    [
        ("", True, Compose, [System, Compose]),
        ("", False, System, [System]),
        ("local", True, System, [System]),
        ("docker", False, Compose, [Compose]),
    ],
)
def test_docker_is_used_if_requested_or_if_an_engine_answers(
    requested: str, answers: bool, chosen: type, stopped: list[type], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mode, "engine_answers", lambda: answers)
    instance = Instance.named("dev", tmp_path)

    assert isinstance(mode.choose(requested, instance), chosen)
    assert [type(each) for each in mode.running_everywhere(requested, instance)] == stopped


def test_an_instance_of_tests_is_never_a_system_of_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mode, "engine_answers", lambda: True)
    instance = Instance.named("test", tmp_path)

    assert isinstance(mode.choose("", instance), System)
    assert [type(each) for each in mode.running_everywhere("", instance)] == [System]


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="MODE=podman"):
        mode.choose("podman", Instance.named("dev", tmp_path))
