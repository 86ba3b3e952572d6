"""`make republish` on L0 sets the selected events to PENDING again, except scheduled events that are obsolete."""

import subprocess
import sys
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr

from tablebell.outbox import Level, OutboxQueue
from tablebell.postgres import Pool
from tablebell.testing import Database, append_rows
from tablebell_local.errors import CommandError
from tablebell_tools.republish import store
from tablebell_tools.republish.events import BATCH, republish_events
from tablebell_tools.republish.selection import RepublishResult, Selection, parse_duration

DAY = timedelta(days=1)
PUBLISHED = "UPDATE event_outbox SET status = 'PUBLISHED', published_at = now() - $2::interval WHERE id = ANY ($1)"
HANDLED = """
INSERT INTO processed_event (event_id, listener)
SELECT event_id, audience || '_LISTENER' FROM event_outbox CROSS JOIN unnest($2::text[]) AS audience WHERE id = ANY ($1)
"""
EVERYONE = ["RESTAURANT", "CUSTOMER", "ADMIN", "AGENCY"]


async def publish(pool: Pool, *rows: dict[str, Any], ago: timedelta = timedelta(0)) -> list[int]:
    ids = await append_rows(pool, Level.EVENT, rows)
    await pool.execute(PUBLISHED, ids, ago)
    return ids


def event(reservation: int, version: int = 1, **columns: Any) -> dict[str, Any]:
    given = {"event_type": "RESERVATION_REQUESTED", "aggregate_id": reservation, "aggregate_version": version}
    return given | {"payload": {}} | columns


def reminder(reservation: int, version: int, key: str = "reminder-24h", **columns: Any) -> dict[str, Any]:
    return event(reservation, version, event_type="RESERVATION_REMINDER_DUE", schedule_key=key, **columns)


async def reserve(pool: Pool, *, version: int, slot_in: timedelta) -> int:
    reservation: int = await pool.fetchval(
        """INSERT INTO reservation (customer_id, restaurant_id, party_size, slot_time, status, version)
           VALUES (5, 10, 4, now() + $2::interval, 'ACCEPTED', $1) RETURNING id""",
        version,
        slot_in,
    )
    return reservation


async def run(pool: Pool, selection: Selection, *, dry_run: bool = False) -> RepublishResult:
    async with pool.acquire() as connection:
        return await republish_events(connection, selection, dry_run=dry_run, progress=lambda _: None)


async def pending(pool: Pool) -> list[int]:
    return [row["id"] for row in await pool.fetch("SELECT id FROM event_outbox WHERE status = 'PENDING' ORDER BY id")]


async def test_a_dry_run_counts_and_changes_nothing(pool: Pool) -> None:
    await publish(pool, *(event(number) for number in range(1, 6)))
    result = await run(pool, Selection(since=DAY), dry_run=True)
    assert (result.done, len(result.examples)) == (5, 3)
    assert result.examples[0].startswith("RESERVATION_REQUESTED of reservation 1, version 1 (")
    assert await pending(pool) == []
    assert await pool.fetchval("SELECT count(*) FROM outbox_intervention") == 0


async def test_selected_events_are_due_again_and_the_intervention_is_recorded(pool: Pool) -> None:
    (old,) = await publish(pool, event(1), ago=timedelta(days=2))
    ids = await publish(pool, event(2), event(3))
    assert (await run(pool, Selection(since=DAY))).done == 2
    assert await pending(pool) == ids
    row = await pool.fetchrow("SELECT * FROM event_outbox WHERE id = $1", ids[0])
    assert row is not None
    assert (row["published_at"], row["retry_count"]) == (None, 0)
    batch = await OutboxQueue(Level.EVENT).claim(pool, list(range(16)), limit=10, lease=DAY)
    assert [row["id"] for row in batch.rows] == ids
    intervention = await pool.fetchrow("SELECT level, act, row_ids, filter, actor_id FROM outbox_intervention")
    assert intervention is not None
    assert tuple(intervention) == ("event_outbox", "republish", ids, {"since": "1 day, 0:00:00"}, None)
    assert await pool.fetchval("SELECT status FROM event_outbox WHERE id = $1", old) == "PUBLISHED"


async def test_unhandled_selects_events_that_not_all_four_listeners_have_handled(pool: Pool) -> None:
    handled, three, none = await publish(pool, event(1), event(2), event(3))
    await pool.execute(HANDLED, [handled], EVERYONE)
    await pool.execute(HANDLED, [three], EVERYONE[:3])
    assert (await run(pool, Selection(unhandled=True))).done == 2
    assert await pending(pool) == [three, none]


async def test_one_event_or_one_type_can_be_selected(pool: Pool) -> None:
    first, second, third = await publish(pool, event(1), event(2, event_type="RESERVATION_ACCEPTED"), event(3))
    event_id: UUID = await pool.fetchval("SELECT event_id FROM event_outbox WHERE id = $1", first)
    assert (await run(pool, Selection(event=event_id))).done == 1
    assert await pending(pool) == [first]
    assert (await run(pool, Selection(type="RESERVATION_ACCEPTED"))).done == 1
    assert await pending(pool) == [first, second]
    assert (await run(pool, Selection(type="RESERVATION_ACCEPTED"))).done == 0, "it is not published at the moment"
    assert third not in await pending(pool)


async def test_many_events_are_republished_in_batches_in_order(pool: Pool) -> None:
    ids = await publish(pool, *(event(number) for number in range(1, 2 * BATCH + 11)))
    assert (await run(pool, Selection(since=DAY))).done == len(ids)
    assert await pending(pool) == ids
    batches = [len(row["row_ids"]) for row in await pool.fetch("SELECT row_ids FROM outbox_intervention ORDER BY id")]
    assert batches == [BATCH, BATCH, 10]


@pytest.mark.parametrize("dry_run", [True, False])
async def test_obsolete_scheduled_events_are_skipped_and_counted(pool: Pool, dry_run: bool) -> None:
    """The first of these would violate the unique index of scheduled events."""
    rescheduled = await reserve(pool, version=4, slot_in=timedelta(hours=20))
    changed = await reserve(pool, version=3, slot_in=timedelta(hours=20))
    passed = await reserve(pool, version=2, slot_in=timedelta(hours=-1))
    useful = await reserve(pool, version=2, slot_in=timedelta(hours=20))
    await publish(pool, reminder(rescheduled, 4))
    tomorrow = "2999-01-01T00:00:00Z"
    (open_one,) = await append_rows(pool, Level.EVENT, [reminder(rescheduled, 4, available_at=tomorrow)])
    await publish(pool, reminder(changed, 2), reminder(passed, 2))
    (good,) = await publish(pool, reminder(useful, 2))
    (thanks,) = await publish(pool, event(passed, 2, event_type="RESERVATION_VISIT_ENDED", schedule_key="visit-ended"))
    result = await run(pool, Selection(since=DAY), dry_run=dry_run)
    assert result.skipped == Counter(
        {"planned anew": 1, "the reservation has changed since it was planned": 1, "too late to be useful": 1}
    )
    assert result.done == 2
    assert await pending(pool) == ([open_one] if dry_run else sorted([open_one, good, thanks]))


async def test_only_the_newest_event_of_a_schedule_key_is_republished(pool: Pool) -> None:
    reservation = await reserve(pool, version=2, slot_in=timedelta(hours=20))
    _, newer = await publish(pool, reminder(reservation, 2, "a"), reminder(reservation, 2, "b"))
    await pool.execute("UPDATE event_outbox SET schedule_key = 'reminder-24h'")
    result = await run(pool, Selection(since=DAY))
    assert (result.done, result.skipped) == (1, Counter({"planned anew": 1}))
    assert await pending(pool) == [newer]


def command(database: Database, *arguments: str, amqp: SecretStr | None = None) -> subprocess.CompletedProcess[str]:
    url = ["--url", database.url.get_secret_value()]
    broker = ["--amqp", amqp.get_secret_value()] if amqp else []
    whole = [sys.executable, "-m", "tablebell_tools", "republish", *arguments, *url, *broker]
    return subprocess.run(whole, capture_output=True, text=True, check=False)


async def test_the_command_prints_its_result(database: Database, pool: Pool) -> None:
    ids = await publish(pool, event(1), event(2))
    dry = command(database, "--unhandled", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "Dry run, nothing is changed" in dry.stdout
    assert "2 are published again" in dry.stdout
    assert await pending(pool) == []
    done = command(database, "--unhandled", "--since", "1h")
    assert "Done" in done.stdout
    assert await pending(pool) == ids


def test_without_a_filter_the_command_prints_its_usage() -> None:
    whole = [sys.executable, "-m", "tablebell_tools", "republish"]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    for name in ("SINCE=", "EVENT=", "TYPE=", "UNHANDLED=1", "DEAD=1", "ERROR=", "DRY=1", "examples:"):
        assert name in done.stdout


def test_contradictory_filters_are_refused() -> None:
    with pytest.raises(CommandError, match="DEAD=1 takes"):
        Selection(dead=True, since=DAY)
    with pytest.raises(CommandError, match="ERROR needs DEAD=1"):
        Selection(error="x")
    with pytest.raises(ValueError, match="not like 90s"):
        parse_duration("yesterday")
    assert parse_duration("90m") == timedelta(minutes=90)


def test_the_store_has_one_function_per_query() -> None:
    functions = {name for name, value in vars(store).items() if getattr(value, "__module__", "") == store.__name__}
    assert functions == set(store.SQL)
