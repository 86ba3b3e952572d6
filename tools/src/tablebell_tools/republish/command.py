"""`make republish`: what is selected is published again, or with a dry run shown."""

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
from tablebell_local.failure import Failure
from tablebell_tools.republish.dead_letters import move_dead_letters
from tablebell_tools.republish.events import republish_events
from tablebell_tools.republish.selection import Outcome, Selection

SERVICE = "republish"


async def republish(selection: Selection, *, url: Callable[[], str], amqp: Callable[[], str], dry_run: bool) -> int:
    """`url` and `amqp` are asked only for what the selection needs."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if selection.dead:
        outcome = await _dead_letters(amqp(), selection, dry_run=dry_run)
        what = f"of the messages in {DEAD_QUEUE}", "go back to their queues", "stay"
    else:
        outcome = await _events(url(), selection, dry_run=dry_run)
        what = "of the published events", "are published again", "are left as they are"
    _tell(outcome, *what, dry_run=dry_run)
    return 0


async def _events(url: str, selection: Selection, *, dry_run: bool) -> Outcome:
    try:
        connection = await connect(SecretStr(url), SERVICE)
    except (OSError, TimeoutError, asyncpg.PostgresError) as error:
        raise Failure(f"the database cannot be reached: {describe(error)}") from error
    try:
        return await republish_events(connection, selection, dry_run=dry_run, progress=_progress)
    except asyncpg.PostgresError as error:
        raise Failure(f"the database refuses: {describe(error)}. What was done is done") from error
    except OUTAGES as error:
        raise Failure(f"interrupted: {describe(error)}. What was done is done: start it again") from error
    finally:
        await connection.close(timeout=5)


async def _dead_letters(url: str, selection: Selection, *, dry_run: bool) -> Outcome:
    async with open_broker(SecretStr(url), SERVICE) as broker:
        try:
            return await move_dead_letters(broker, selection, dry_run=dry_run, progress=_progress)
        except OUTAGES as error:
            raise Failure(f"interrupted: {describe(error)}. What was moved is moved: start it again") from error


def _progress(outcome: Outcome) -> None:
    print(f"  {outcome.done:,} so far …", file=sys.stderr)


def _tell(outcome: Outcome, subject: str, done: str, kept: str, *, dry_run: bool) -> None:
    if dry_run:
        print(f"Dry run, nothing is changed. Without DRY=1, {subject}:")
    else:
        print(f"Done, {subject}:")
    print(f"  {outcome.done:,} {done}")
    for example in outcome.examples:
        print(f"      for example {example}")
    for reason, count in outcome.kept.most_common():
        print(f"  {count:,} {kept}: {reason}")
