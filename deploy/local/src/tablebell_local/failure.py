"""The one exception that a person is meant to read."""

from pathlib import Path


class Failure(Exception):
    """Something could not be done; the message says what and how to get it done, and no traceback is shown.

    `log` names the file whose last lines tell why, and `begin` where in it the failed attempt begins.
    """

    def __init__(self, message: str, log: Path | None = None, begin: int = 0) -> None:
        super().__init__(message)
        self.log = log
        self.begin = begin
