"""Shows the progress of each process: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

QUIET = {"checking", "stopping"}
GOOD = {"ready", "stopped"}
BAD = "failed"


@dataclass
class Row:
    state: str
    detail: str = ""
    since: float = field(default_factory=time.monotonic)
    took: float | None = None


class Progress:
    """Prints to standard error, so that the command's output can be piped."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._rows: dict[str, Row] = {}
        self._live = Live(self, console=self._console, refresh_per_second=8) if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def note(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False)

    def set(self, name: str, state: str, detail: str = "") -> None:
        row = self._rows.setdefault(name, Row(state))
        row.state, row.detail = state, detail
        if state not in QUIET:
            self._line(name, row)

    def ready(self, name: str, detail: str = "", state: str = "ready") -> None:
        self._finish(name, state, detail)

    def failed(self, name: str, detail: str) -> None:
        self._finish(name, BAD, detail)

    def _finish(self, name: str, state: str, detail: str) -> None:
        row = self._rows.setdefault(name, Row(state))
        row.state, row.detail = state, detail
        row.took = time.monotonic() - row.since
        self._line(name, row)

    def _line(self, name: str, row: Row) -> None:
        if self._live is None:
            after = f"{row.took:.1f} s" if row.took is not None and not row.detail else row.detail
            self._console.print(f"  {name:<22} {row.state:<10} {after}".rstrip(), soft_wrap=True, markup=False)

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, row in self._rows.items():
            mark = "[green]✔[/]" if row.state in GOOD else "[red]✘[/]" if row.state == BAD else Spinner("dots")
            seconds = row.took if row.took is not None else time.monotonic() - row.since
            table.add_row(mark, name, row.state, f"{seconds:.1f} s", f"[dim]{escape(row.detail)}[/]")
        return table
