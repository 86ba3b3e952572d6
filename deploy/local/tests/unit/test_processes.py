"""Finding processes by the marks in their environment and stopping them, with real child processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tablebell_local.processes import command_lines, find, fingerprint, spawn, stop

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a Python program as a process of the instance in `tmp_path`."""
    children = []

    def start(program: str, name: str = "relay", config: str = "") -> "subprocess.Popen[bytes]":
        log = tmp_path / f"{name}.log"
        command = [sys.executable, "-c", program]
        child = spawn(command, stack=tmp_path, name=name, config=config, environment={}, log=log)
        children.append(child)
        while b"ready" not in log.read_bytes():
            time.sleep(0.01)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()


SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
PARENT = (
    "import subprocess, sys, time;"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}]);"
    "sys.exit(min(child.wait(), 0))"
)


def pids(stack: Path) -> list[int]:
    return [process.pid for process in find(stack)]


def test_a_process_is_found_by_its_marks(start: Start, tmp_path: Path) -> None:
    relay = start(SLEEP, "relay", config="abc")
    api = start(SLEEP, "api")

    assert {process.pid for process in find(tmp_path)} == {relay.pid, api.pid}
    assert [(process.pid, process.config) for process in find(tmp_path, "relay")] == [(relay.pid, "abc")]


def test_another_instance_is_not_found(start: Start, tmp_path: Path) -> None:
    start(SLEEP)

    assert find(tmp_path / "other") == []
    assert find(tmp_path.parent) == []


def test_children_are_found_with_their_parent(start: Start, tmp_path: Path) -> None:
    start(PARENT)

    assert len(find(tmp_path, "relay")) == 2


def test_a_zombie_is_not_running(start: Start, tmp_path: Path) -> None:
    child = start(SLEEP)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # now it is a zombie

    assert find(tmp_path) == []
    assert child.pid not in {pid for pid, arguments in command_lines() if arguments != [""]}


async def test_only_the_parent_gets_the_signal(start: Start, tmp_path: Path) -> None:
    parent = start(PARENT)

    await stop(lambda: pids(tmp_path), [(signal.SIGTERM, 0.2)])

    assert pids(tmp_path) == []
    assert parent.wait() == -signal.SIGTERM


async def test_a_process_that_ignores_the_signal_is_killed(start: Start, tmp_path: Path) -> None:
    child = start(IGNORES_SIGTERM)

    await stop(lambda: pids(tmp_path), [(signal.SIGTERM, 0.2)])

    assert child.wait() == -signal.SIGKILL


async def test_a_process_stopped_by_sigstop_ends_without_waiting(start: Start, tmp_path: Path) -> None:
    child = start(SLEEP)
    child.send_signal(signal.SIGSTOP)

    await stop(lambda: pids(tmp_path), [(signal.SIGTERM, 10)])

    assert child.wait() == -signal.SIGTERM


def test_a_process_has_its_own_session_and_not_the_callers_environment(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://somebody@example.org/else")
    child = start(SLEEP)

    assert os.getsid(child.pid) == child.pid
    assert b"DATABASE_URL" not in Path(f"/proc/{child.pid}/environ").read_bytes()


def test_different_settings_have_different_fingerprints() -> None:
    assert fingerprint({"PORT": "1"}) == fingerprint({"PORT": "1"})
    assert fingerprint({"PORT": "1"}) != fingerprint({"PORT": "2"})
