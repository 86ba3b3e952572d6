"""No row can stop a relay: a row that the database refuses is buried with the reason, and the others are published."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from pydantic import SecretStr

from tablebell.postgres import Pool
from tablebell.testing import Database, eventually

from .running import running_relay
from .source import Source, event
from .stream import Stream

NO_POLL = {"poll_seconds": 600.0}
UNROUTABLE = "KITCHEN_ON_FIRE"
TOMORROW = datetime.now(UTC) + timedelta(days=1)

# An earlier version of the index, which covered only PENDING rows: it causes a real error on one row.
ONLY_PENDING = """
DROP INDEX event_outbox_schedule;
CREATE UNIQUE INDEX event_outbox_schedule ON event_outbox (aggregate_type, aggregate_id, schedule_key)
    WHERE status = 'PENDING' AND schedule_key IS NOT NULL
"""
REFUSE = """
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'aggregate % is refused', NEW.aggregate_id; END $$
"""
ABANDON = "UPDATE event_outbox SET status = 'PROCESSING', lease_token = $2, lease_until = now() + $3 WHERE id = $1"


async def refuse(pool: Pool, aggregate: int, *statuses: str) -> None:
    """Make the database refuse these statuses for the rows of the aggregate."""
    listed = ", ".join(f"'{status}'" for status in statuses)
    await pool.execute(REFUSE)
    await pool.execute(
        f"""CREATE TRIGGER refuse BEFORE UPDATE ON event_outbox FOR EACH ROW
            WHEN (NEW.aggregate_id = {aggregate} AND NEW.status IN ({listed})) EXECUTE FUNCTION refuse()"""
    )


async def is_dead(source: Source, row_id: int) -> bool:
    return bool((await source.row(row_id))["status"] == "DEAD")


async def abandon(pool: Pool, row_id: int) -> None:
    """Lease the row to a relay that no longer runs."""
    await pool.execute(ABANDON, row_id, uuid4(), timedelta(hours=1))


async def test_a_reminder_rescheduled_while_it_was_leased_does_not_stop_the_relay(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    await pool.execute(ONLY_PENDING)
    (old,) = await source.commit(event(1, 2, schedule_key="reminder-24h"))
    await abandon(pool, old)
    (new,) = await source.commit(event(1, 4, schedule_key="reminder-24h", available_at=TOMORROW))
    (other,) = await source.commit(event(17, 1))
    await abandon(pool, other)
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: stream.arrivals == [(17, 1)])
        await source.commit(event(2, 1))
        await eventually(lambda: stream.arrivals == [(17, 1), (2, 1)])
    buried = await source.row(old)
    assert buried["status"] == "DEAD"
    assert "event_outbox_schedule" in buried["last_error"]
    assert (await source.row(new))["status"] == "PENDING"


@pytest.mark.parametrize(
    ("status", "columns"),
    [("PUBLISHED", {}), ("FAILED", {"event_type": UNROUTABLE})],
    ids=["complete", "fail"],
)
async def test_a_row_whose_outcome_cannot_be_recorded_is_buried_and_the_others_are_recorded(
    database: Database,
    amqp_url: SecretStr,
    source: Source,
    stream: Stream,
    pool: Pool,
    status: str,
    columns: dict[str, object],
) -> None:
    await refuse(pool, 1, status)
    bad, *good = await source.commit(event(1, 1, **columns), event(2, 1), event(3, 1))
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: is_dead(source, bad))
        await eventually(lambda: statuses_of(source, good, "PUBLISHED"))
        await source.commit(event(4, 1))
        await eventually(lambda: (4, 1) in stream.arrivals)
    row = await source.row(bad)
    assert row["last_error"] == f"could not be recorded as {status.lower()}: RaiseError: aggregate 1 is refused"


async def test_a_row_that_cannot_be_released_is_buried_and_the_others_are_released(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    """Successors of a failed event are released. The database refuses that for one of two."""
    await refuse(pool, 1, "PENDING")
    head, bad, good_head, good = await source.commit(
        event(1, 1, event_type=UNROUTABLE), event(1, 2), event(2, 1, event_type=UNROUTABLE), event(2, 2)
    )
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: is_dead(source, bad))
        await eventually(lambda: statuses_of(source, [head, good_head], "FAILED"))
        await eventually(lambda: statuses_of(source, [good], "PENDING"))
        await source.commit(event(4, 1))
        await eventually(lambda: stream.arrivals == [(4, 1)])
    assert "aggregate 1 is refused" in (await source.row(bad))["last_error"]


async def test_a_row_that_cannot_be_claimed_is_buried_and_the_others_are_published_in_order(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    await refuse(pool, 1, "PROCESSING")
    _, bad, *_ = await source.commit(event(2, 1), event(1, 1), event(2, 2), event(3, 1), event(1, 2))
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: is_dead(source, bad))
        await eventually(lambda: stream.first_arrivals() == {2: [1, 2], 3: [1]})
        await source.commit(event(4, 1))
        await eventually(lambda: (4, 1) in stream.arrivals)
    row = await source.row(bad)
    assert row["last_error"].startswith("the row could not be claimed: ")


async def test_a_row_that_cannot_be_buried_does_not_stop_the_others(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    await refuse(pool, 1, "PROCESSING", "DEAD")
    (bad, _) = await source.commit(event(1, 1), event(2, 1))
    async with running_relay(database, amqp_url, poll_seconds=0.2):
        await eventually(lambda: stream.arrivals == [(2, 1)])
        await asyncio.sleep(0.5)  # two polls find it again
        await source.commit(event(3, 1))
        await eventually(lambda: stream.arrivals == [(2, 1), (3, 1)])
    assert (await source.row(bad))["status"] == "PENDING"


@pytest.mark.parametrize(("refused", "left"), [(["PENDING"], "DEAD"), (["PENDING", "DEAD"], "PROCESSING")])
async def test_a_start_never_fails_on_an_abandoned_row(
    database: Database,
    amqp_url: SecretStr,
    source: Source,
    stream: Stream,
    pool: Pool,
    refused: list[str],
    left: str,
) -> None:
    bad, good = await source.commit(event(1, 1), event(17, 1))
    for row_id in (bad, good):
        await abandon(pool, row_id)
    await refuse(pool, 1, *refused)
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: stream.arrivals == [(17, 1)])
        assert (await source.row(bad))["status"] == left


async def test_a_missing_privilege_buries_no_row(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    """Neither in a claim nor in the release of abandoned leases. Publishing resumes when the privilege is granted."""
    leased, *_ = await source.commit(*(event(number, 1) for number in range(1, 6)))
    await abandon(pool, leased)
    await pool.execute("REVOKE UPDATE ON event_outbox FROM tablebell_event_relay")
    async with running_relay(database, amqp_url, poll_seconds=0.2):
        await asyncio.sleep(1)
        assert await source.statuses() == {"PROCESSING": 1, "PENDING": 4}
        await pool.execute("GRANT UPDATE ON event_outbox TO tablebell_event_relay")
        await eventually(lambda: source.all_are("PUBLISHED"))


async def test_recording_is_retried_while_the_database_refuses_every_row(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    await pool.execute(REFUSE.replace("'aggregate % is refused', NEW.aggregate_id", "USING ERRCODE = '42501'"))
    await pool.execute(
        """CREATE TRIGGER refuse BEFORE UPDATE ON event_outbox FOR EACH ROW WHEN (NEW.status = 'PUBLISHED')
           EXECUTE FUNCTION refuse()"""
    )
    await source.commit(event(1, 1), event(2, 1))
    async with running_relay(database, amqp_url, **NO_POLL):
        await eventually(lambda: len(stream.arrivals) == 2)
        await asyncio.sleep(0.7)
        assert await source.statuses() == {"PROCESSING": 2}
        await pool.execute("DROP TRIGGER refuse ON event_outbox")
        await eventually(lambda: source.all_are("PUBLISHED"))
    assert stream.count_duplicates() == 0


async def statuses_of(source: Source, ids: list[int], status: str) -> bool:
    return {(await source.row(row_id))["status"] for row_id in ids} == {status}
