"""The common part of the command lines of `tablebell_local` and `tablebell_tools`."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tablebell_local.errors import CommandError
from tablebell_local.instance import STATE
from tablebell_local.logfiles import last_lines
from tablebell_local.services import MAX_REPLICAS


def new_parser(package: str, description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("--instance", help="the instance's name (default: dev; for tests: test; for the bench: bench)")
    parser.add_argument("--state", type=Path, default=STATE, help="the directory of all instances (default: .local)")
    parser.add_argument(
        "--mode",
        default=os.environ.get("MODE", ""),
        help="docker or local (default: MODE; without it, docker if an engine answers)",
    )
    return parser


def add_up_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=_scale, action="append", default=[], metavar="SERVICE=N", help="replicas")
    parser.add_argument("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting")


def run(command: Callable[[], int | None], *, starts_system: bool) -> int:
    """Returns the exit code. An error that a user can fix is printed without a traceback."""
    try:
        return command() or 0
    except CommandError as error:
        for line in last_lines(error.log, 20, error.begin) if error.log else []:
            print(f"  | {line}", file=sys.stderr)
        log = f"\nThe whole log: {error.log}" if error.log else ""
        print(f"Error: {error}{log}", file=sys.stderr)
        return 1
    except PermissionError as error:
        print(f"Error: {error}. If another user started it, stop it as that user.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        hint = " Processes that were started keep running; `make down` stops them." if starts_system else ""
        print(f"\nInterrupted.{hint}", file=sys.stderr)
        return 130


def _scale(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if not count.isdigit() or not 1 <= int(count) <= MAX_REPLICAS:
        raise argparse.ArgumentTypeError(f"“{text}” is not like event-relay=3")
    return name, int(count)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"“{text}” is not like MAX_ATTEMPTS=3")
    return name, value
