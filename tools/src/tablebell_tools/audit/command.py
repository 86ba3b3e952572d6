"""`make audit`: runs the checks, prints a table, and returns the exit code."""

import time
from datetime import timedelta

import asyncpg
from rich.console import Console

from tablebell_local.errors import CommandError
from tablebell_tools.audit import check, report

STATEMENT_SECONDS = 120.0


async def audit(url: str, reach: timedelta, settle: timedelta, overdue: timedelta) -> int:
    try:
        connection = await asyncpg.connect(url, timeout=10, command_timeout=STATEMENT_SECONDS)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise CommandError(f"the database cannot be reached: {error}") from error
    began = time.monotonic()
    try:
        findings = await check.audit(connection, reach, settle, overdue)
    finally:
        await connection.close(timeout=5)
    terminal = Console(highlight=False)
    console = terminal if terminal.is_terminal else Console(highlight=False, width=140)
    report.show(findings, console)
    violated = [finding.check.title for finding in findings if finding.is_violation]
    result = f"[bold red]✘ violated: {', '.join(violated)}[/]" if violated else "[green]✔ Nothing was lost.[/]"
    console.print(f"\n{result} [dim](in {time.monotonic() - began:.1f} s)[/]")
    return 1 if violated else 0
