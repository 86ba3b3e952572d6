"""Which port a part gets, with real sockets in the way."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tablebell_local.ports import Moved, PortBook, is_free


@contextmanager
def listener(host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.fixture
def wish() -> int:
    """A port that is free, and so is the next to try."""
    for port in range(31_000, 32_000):
        if is_free(port) and is_free(port + 10) and is_free(port + 20):
            return port
    raise AssertionError("no free ports")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ports.json"


def test_the_preferred_port_is_taken_when_it_is_free(path: Path, wish: int) -> None:
    book = PortBook(path)

    assert book.settle({"api": wish}, held=()) == []

    assert book["api"] == wish
    assert PortBook(path)["api"] == wish


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_taken_port_is_avoided_and_the_move_is_told(path: Path, wish: int, host: str) -> None:
    with listener(host, wish):
        assert PortBook(path).settle({"api": wish}, held=()) == [Moved("api", wish, wish + 10)]


def test_a_part_that_runs_keeps_its_port_though_the_preferred_one_is_free_again(path: Path, wish: int) -> None:
    with listener(port=wish):
        PortBook(path).settle({"api": wish}, held=())
    book = PortBook(path)
    with listener(port=wish + 10):  # the part itself
        book.settle({"api": wish}, held={"api"})

    assert book["api"] == wish + 10


def test_a_part_that_does_not_run_goes_back_to_its_preferred_port(path: Path, wish: int) -> None:
    with listener(port=wish):
        PortBook(path).settle({"api": wish}, held=())
    book = PortBook(path)
    book.settle({"api": wish}, held=())

    assert book["api"] == wish


def test_a_recorded_port_that_was_taken_since_is_moved(path: Path, wish: int) -> None:
    PortBook(path).settle({"api": wish}, held=())
    with listener(port=wish):
        book = PortBook(path)
        book.settle({"api": wish}, held=())

    assert book["api"] == wish + 10


def test_two_parts_never_get_the_same_port(path: Path, wish: int) -> None:
    book = PortBook(path)
    book.settle({"api": wish, "relay": wish}, held=())

    assert book["api"] != book["relay"]


def test_settling_some_parts_keeps_what_is_recorded_of_the_others(path: Path, wish: int) -> None:
    book = PortBook(path)
    book.settle({"api": wish}, held=())
    book.settle({"relay": wish + 10}, held=())

    assert PortBook(path)["api"] == wish


@pytest.mark.parametrize("content", ["", "{", "[]", '{"api": "x"}'])
def test_a_damaged_record_counts_as_none(path: Path, wish: int, content: str) -> None:
    path.write_text(content)
    book = PortBook(path)
    book.settle({"api": wish}, held=())

    assert book["api"] == wish
