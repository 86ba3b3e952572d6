"""The error that a command reports to its user without a traceback."""

from pathlib import Path


class CommandError(Exception):
    """The message says what failed and how to fix it. The log's last lines after offset `begin` are shown with it."""

    def __init__(self, message: str, log: Path | None = None, begin: int = 0) -> None:
        super().__init__(message)
        self.log = log
        self.begin = begin
