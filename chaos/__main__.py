"""`python -m chaos`: load and faults, then checks. Exit code 1 if anything was lost or out of order."""

import argparse
import asyncio
import sys
import time

from chaos.environment import open_environment
from chaos.run import Run
from chaos.screen import Screen
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_tools.audit import report


async def run(options: argparse.Namespace) -> int:
    screen = Screen()
    async with open_environment(
        Instance.named(options.instance), dict(options.set), attach=options.attach
    ) as environment:
        chaos_run = Run(environment, screen, seconds=options.duration, rate=options.rate, seed=options.seed)
        findings = await chaos_run.run()
    screen.console.print()
    report.show(findings, screen.console)
    violated = [finding.check.title for finding in findings if finding.is_violation]
    if violated:
        screen.console.print(f"\n[bold red]✘ violated: {', '.join(violated)}[/] [dim](seed {options.seed})[/]")
        return 1
    screen.console.print(f"\n[green]✔ Nothing was lost or out of order.[/] [dim](seed {options.seed})[/]")
    return 0


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    options.add_argument("--duration", type=float, default=60.0, metavar="SECONDS")
    options.add_argument("--rate", type=float, default=20.0, metavar="PER_SECOND")
    options.add_argument(
        "--seed", type=int, default=int(time.time()) % 100_000, help="repeats the choices of another run"
    )
    options.add_argument("--instance", default="chaos", help="the instance; its data is removed (default: chaos)")
    options.add_argument("--attach", action="store_true", help="use a running instance and leave it running")
    options.add_argument("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting")
    return options


def _setting(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def main() -> int:
    options = parser().parse_args()
    if options.instance == "dev":
        sys.stderr.write("Error: chaos needs an instance of its own\n")
        return 2
    try:
        return asyncio.run(run(options))
    except CommandError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
