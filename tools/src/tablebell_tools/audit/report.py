"""The findings as a table."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tablebell_tools.audit.check import Finding


def show(findings: Sequence[Finding], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("CHECK", no_wrap=True)
    table.add_column("CHECKED", justify="right")
    table.add_column("WRONG", justify="right")
    table.add_column("EXAMPLES")
    for finding in findings:
        examples = escape("; ".join(finding.examples))
        table.add_row(finding.check.title, f"{finding.checked:,}", _count(finding), examples)
    console.print(table)


def _count(finding: Finding) -> str:
    if finding.check.is_note:
        return f"[yellow]({finding.wrong:,})[/]" if finding.wrong else "[dim](0)[/]"
    return f"[bold red]{finding.wrong:,}[/]" if finding.wrong else "[green]0[/]"
