"""The output of a run."""

import time

from rich.console import Console
from rich.markup import escape


class Screen:
    def __init__(self) -> None:
        terminal = Console(highlight=False)
        self.console = terminal if terminal.is_terminal else Console(highlight=False, width=150)
        self._began = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def say(self, text: str, style: str = "") -> None:
        self.console.print(f"[dim]{self.elapsed:6.1f} s[/]  [{style or 'default'}]{escape(text)}[/]")
