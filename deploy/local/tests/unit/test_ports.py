"""Port assignment, with real sockets on the preferred ports."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tablebell_local.ports import MovedPort, PortRegistry, is_free


@contextmanager
def listener(host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.fixture
def preferred() -> int:
    """A free port; the next two candidates are free too."""
    for port in range(31_000, 32_000):
        if is_free(port) and is_free(port + 10) and is_free(port + 20):
            return port
    raise AssertionError("no free ports")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ports.json"


def test_a_free_preferred_port_is_assigned(path: Path, preferred: int) -> None:
    book = PortRegistry(path)

    assert book.assign({"api": preferred}, running=()) == []

    assert book["api"] == preferred
    assert PortRegistry(path)["api"] == preferred


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_port_in_use_is_avoided_and_the_move_is_returned(path: Path, preferred: int, host: str) -> None:
    with listener(host, preferred):
        assert PortRegistry(path).assign({"api": preferred}, running=()) == [
            MovedPort("api", preferred, preferred + 10)
        ]


def test_a_running_process_keeps_its_port_when_the_preferred_one_is_free_again(path: Path, preferred: int) -> None:
    with listener(port=preferred):
        PortRegistry(path).assign({"api": preferred}, running=())
    book = PortRegistry(path)
    with listener(port=preferred + 10):  # the process itself
        book.assign({"api": preferred}, running={"api"})

    assert book["api"] == preferred + 10


def test_a_stopped_process_returns_to_its_preferred_port(path: Path, preferred: int) -> None:
    with listener(port=preferred):
        PortRegistry(path).assign({"api": preferred}, running=())
    book = PortRegistry(path)
    book.assign({"api": preferred}, running=())

    assert book["api"] == preferred


def test_a_recorded_port_that_is_in_use_now_is_moved(path: Path, preferred: int) -> None:
    PortRegistry(path).assign({"api": preferred}, running=())
    with listener(port=preferred):
        book = PortRegistry(path)
        book.assign({"api": preferred}, running=())

    assert book["api"] == preferred + 10


def test_two_processes_never_get_the_same_port(path: Path, preferred: int) -> None:
    book = PortRegistry(path)
    book.assign({"api": preferred, "relay": preferred}, running=())

    assert book["api"] != book["relay"]


def test_assigning_some_ports_keeps_the_records_of_the_others(path: Path, preferred: int) -> None:
    book = PortRegistry(path)
    book.assign({"api": preferred}, running=())
    book.assign({"relay": preferred + 10}, running=())

    assert PortRegistry(path)["api"] == preferred


@pytest.mark.parametrize("content", ["", "{", "[]", '{"api": "x"}'])
def test_an_unreadable_file_counts_as_empty(path: Path, preferred: int, content: str) -> None:
    path.write_text(content)
    book = PortRegistry(path)
    book.assign({"api": preferred}, running=())

    assert book["api"] == preferred
