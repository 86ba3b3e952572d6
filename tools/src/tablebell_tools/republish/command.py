"""`make republish`: publishes the selected events again; a dry run only prints them."""

import logging
import sys
from collections.abc import Callable

import asyncpg
import structlog
from pydantic import SecretStr

from tablebell.outage import OUTAGES, describe
from tablebell.postgres import connect
from tablebell.rabbit import open_broker
from tablebell.topology import DEAD_QUEUE
from tablebell_local.errors import CommandError
from tablebell_tools.republish.dead_letters import move_dead_letters
from tablebell_tools.republish.events import republish_events
from tablebell_tools.republish.selection import RepublishResult, Selection

SERVICE = "republish"


async def republish(selection: Selection, *, url: Callable[[], str], amqp: Callable[[], str], dry_run: bool) -> int:
    """Calls only the one of `url` and `amqp` that the selection needs."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if selection.dead:
        result = await _dead_letters(amqp(), selection, dry_run=dry_run)
        what = f"of the messages in {DEAD_QUEUE}", "go back to their queues", "stay"
    else:
        result = await _events(url(), selection, dry_run=dry_run)
        what = "of the published events", "are published again", "are left as they are"
    _print_result(result, *what, dry_run=dry_run)
    return 0


async def _events(url: str, selection: Selection, *, dry_run: bool) -> RepublishResult:
    try:
        connection = await connect(SecretStr(url), SERVICE)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise CommandError(f"the database cannot be reached: {describe(error)}") from error
    try:
        return await republish_events(connection, selection, dry_run=dry_run, progress=_progress)
    except asyncpg.PostgresError as error:
        raise CommandError(
            f"the database reported an error: {describe(error)}. Finished batches are committed"
        ) from error
    except OUTAGES as error:
        raise CommandError(f"interrupted: {describe(error)}. Finished batches are committed: start it again") from error
    finally:
        await connection.close(timeout=5)


async def _dead_letters(url: str, selection: Selection, *, dry_run: bool) -> RepublishResult:
    async with open_broker(SecretStr(url), SERVICE) as broker:
        try:
            return await move_dead_letters(broker, selection, dry_run=dry_run, progress=_progress)
        except OUTAGES as error:
            raise CommandError(f"interrupted: {describe(error)}. Moved messages stay moved: start it again") from error


def _progress(result: RepublishResult) -> None:
    print(f"  {result.done:,} so far …", file=sys.stderr)


def _print_result(result: RepublishResult, subject: str, done: str, skipped: str, *, dry_run: bool) -> None:
    if dry_run:
        print(f"Dry run, nothing is changed. Without DRY=1, {subject}:")
    else:
        print(f"Done, {subject}:")
    print(f"  {result.done:,} {done}")
    for example in result.examples:
        print(f"      for example {example}")
    for reason, count in result.skipped.most_common():
        print(f"  {count:,} {skipped}: {reason}")
