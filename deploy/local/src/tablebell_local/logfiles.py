"""The log files: where new output starts, and the last lines."""

from collections import deque
from pathlib import Path

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
