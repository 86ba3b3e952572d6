"""The output of the demo: coloured on a terminal, plain elsewhere."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from tablebell.people import DURABLE_CHANNELS
from tablebell_tools.demo.sockets import ReceivedFrame
from tablebell_tools.demo.steps import Send, Step

KINDS = {
    "RESTAURANT_USER": "staff",
    "CUSTOMER": "customer",
    "ADMIN_USER": "admin",
    "AGENCY_USER": "agency",
}


class Screen:
    def __init__(self) -> None:
        console = Console(highlight=False)
        self._console = console if console.is_terminal else Console(highlight=False, width=110)

    def title(self, text: str) -> None:
        self._console.print()
        self._console.rule(f"[bold]{escape(text)}[/]", align="left")

    def say(self, text: str) -> None:
        self._console.print(escape(text))

    def step(self, step: Step, began: datetime) -> None:
        colour = {"L0": "cyan", "L1": "magenta", "L2": "yellow"}[step.level]
        since = _since(step.at, began)
        self._console.print(f"  {since:>9}  [{colour}]{step.level}[/]  {escape(step.who)}: {escape(step.what)}")

    def deliveries(self, sends: Sequence[Send], frames: Sequence[ReceivedFrame], began: datetime) -> None:
        """For each person and channel: the time from the request to the delivery."""
        live = {received.person: received for received in frames}
        table = Table(box=None, padding=(0, 2), header_style="bold")
        for heading in ("who", "", *DURABLE_CHANNELS, "WEBSOCKET"):
            table.add_column(heading)
        people = dict.fromkeys((send.user_type, send.user_id, send.name) for send in sends)
        for user_type, user_id, name in people:
            theirs = {s.channel_type: s for s in sends if (s.user_type, s.user_id) == (user_type, user_id)}
            received = live.get(f"{user_type.lower()}:{user_id}")
            frame = f"[green]{_since(received.at, began)}[/]" if received else "[red]no frame[/]"
            cells = [_cell(theirs.get(channel), began) for channel in DURABLE_CHANNELS]
            table.add_row(escape(name), f"[dim]{KINDS[user_type]} {user_id}[/]", *cells, frame)
        self._console.print(table)

    def mail(self, mail: Mapping[str, Any]) -> None:
        self._console.print(
            Panel(
                escape(str(mail.get("text", "")).strip()),
                title=f"[bold]{escape(str(mail.get('subject', '')))}[/]",
                subtitle=f"to {escape(', '.join(mail.get('to', [])))}",
                title_align="left",
                subtitle_align="left",
            )
        )

    def addresses(self, where: Mapping[str, str]) -> None:
        table = Table(box=None, padding=(0, 2), show_header=False)
        for name, address in where.items():
            table.add_row(name, address)
        self._console.print(table)

    def result(self, problems: Sequence[str]) -> None:
        self._console.print()
        if problems:
            for problem in problems:
                self._console.print(f"[red]✘[/] {escape(problem)}")
        else:
            self._console.print("[green]✔[/] Everyone was notified on every channel.")


def _cell(send: Send | None, began: datetime) -> str:
    if send is None:
        return "[dim]·[/]"
    if send.sent_at is not None:
        return f"[green]{_since(send.sent_at, began)}[/]"
    if send.is_sent is False:
        return f"[yellow]{escape(send.last_error or 'not sent')}[/]"
    return f"[red]{escape(send.last_error or 'waiting')}[/]"


def _since(at: datetime, began: datetime) -> str:
    return f"+{(at - began).total_seconds() * 1000:.0f} ms"
