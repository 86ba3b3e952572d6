"""Reads the log files: the last lines, and new lines as they are written."""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

POLL = 0.3
MAX_BYTES = 10 * 1024 * 1024


def begin(path: Path) -> int:
    """Rotates a big log. Returns the offset at which new output will start."""
    if not path.exists():
        return 0
    if path.stat().st_size > MAX_BYTES:
        path.rename(path.with_suffix(".log.1"))
        return 0
    return path.stat().st_size


def last_lines(path: Path, count: int, begin: int = 0) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return [line.decode(errors="replace").rstrip("\n") for line in deque(file, maxlen=count)]
    except FileNotFoundError:
        return []


def show(paths: list[Path], count: int) -> None:
    width = _width(paths)
    for path in paths:
        for line in last_lines(path, count):
            print(f"{path.stem:<{width}}| {line}")


def follow(paths: list[Path]) -> None:
    """Prints new lines until interrupted. A rotated log is read from its start."""
    width = _width(paths)
    positions = {path: path.stat().st_size if path.exists() else 0 for path in paths}
    while True:
        for path in paths:
            for line in _added(path, positions):
                print(f"{path.stem:<{width}}| {line}", flush=True)
        time.sleep(POLL)


def _added(path: Path, positions: dict[Path, int]) -> Iterator[str]:
    if not path.exists():
        return
    if path.stat().st_size < positions[path]:
        positions[path] = 0
    with path.open("rb") as file:
        file.seek(positions[path])
        for line in file:
            if not line.endswith(b"\n"):  # an incomplete line: the next poll reads it
                return
            positions[path] += len(line)
            yield line.decode(errors="replace").rstrip("\n")


def _width(paths: list[Path]) -> int:
    return max((len(path.stem) for path in paths), default=0) + 1
