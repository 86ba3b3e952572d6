"""`make import`: imports a CSV file with the owner's role; a dry run only lists the problems."""

import asyncio
import sys
from pathlib import Path

import asyncpg
from pydantic import SecretStr

from reservation_api.management.changes import NOBODY
from reservation_api.management.people_import import ImportResult, PeopleImport
from reservation_api.problem import Problem
from tablebell.outage import OUTAGES, describe
from tablebell.postgres import open_pool
from tablebell_local.errors import CommandError

SERVICE = "import"
STEPS = {"read": "lines read", "checked": "lines checked", "written": "people written"}


def import_file(file: Path, url: str, *, dry_run: bool) -> int:
    """Returns 1 if the file has problems; then nothing is imported."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from error
    result = asyncio.run(_import(content, url, dry_run=dry_run))
    _print_result(result)
    return 1 if result.problems else 0


async def _import(content: bytes, url: str, *, dry_run: bool) -> ImportResult:
    try:
        async with open_pool(SecretStr(url), SERVICE, 1) as pool:
            return await PeopleImport(pool).run(content, NOBODY, dry_run=dry_run, progress=_show)
    except Problem as problem:
        raise CommandError(str(problem)) from problem
    except asyncpg.PostgresError as error:
        raise CommandError(f"the database reported an error: {describe(error)}. Nothing was imported") from error
    except OUTAGES as error:
        raise CommandError(f"the database cannot be reached: {describe(error)}. Nothing was imported") from error


def _show(step: str, done: int, total: int) -> None:
    """One line every 1,000."""
    if done and (done % 1_000 == 0 or done == total):
        print(f"  {done:,}{f' of {total:,}' if total else ''} {STEPS[step]}", file=sys.stderr)


def _print_result(result: ImportResult) -> None:
    for problem in result.problems:
        print(f"line {problem.line}: {problem.field}: {problem.message}")
    counts = f"{result.created:,} created, {result.changed:,} changed, {result.unchanged:,} unchanged"
    if result.problems:
        print(f"{len(result.problems):,} problems in {result.rows:,} lines. Nothing was imported.")
    elif result.dry_run:
        print(f"Dry run, nothing is changed. Without DRY=1, of {result.rows:,} people: {counts}.")
    else:
        print(f"Done, {result.rows:,} people: {counts}.")
