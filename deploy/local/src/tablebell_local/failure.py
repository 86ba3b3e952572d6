"""The one exception that a person is meant to read."""

from pathlib import Path


class Failure(Exception):
    """Something could not be done; the message says what and how to get it done, and no traceback is shown.

    `log` names the file whose last lines tell why.
    """

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log
