"""The contract of OutboxQueue, on the tables of L0 and L1."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tablebell.outbox import NO_PAUSE, Batch, Failure, Level, OutboxQueue, claim_one_by_one
from tablebell.postgres import Pool
from tablebell.testing import append_rows

from .levels import ALL_PARTITIONS, LEASE, new_row


class Harness:
    """A queue on its table, with the steps that the tests repeat."""

    def __init__(self, queue: OutboxQueue, pool: Pool) -> None:
        self.queue = queue
        self.pool = pool

    async def append(self, count: int) -> list[int]:
        rows = [new_row(self.queue.level, number) for number in range(1, count + 1)]
        return await append_rows(self.pool, self.queue.level, rows)

    async def claim(self, limit: int = 100, lease: timedelta = LEASE) -> Batch:
        return await self.queue.claim(self.pool, ALL_PARTITIONS, limit=limit, lease=lease)

    async def claim_one_by_one(self) -> Batch:
        async with self.pool.acquire() as connection:
            return await claim_one_by_one(self.queue, connection, ALL_PARTITIONS, limit=3, lease=LEASE)

    async def statuses(self) -> Mapping[str, int]:
        rows = await self.pool.fetch(f"SELECT status, count(*) AS rows FROM {self.queue.level} GROUP BY status")
        return {row["status"]: row["rows"] for row in rows}

    async def column(self, name: str, row_id: int) -> Any:
        return await self.pool.fetchval(f"SELECT {name} FROM {self.queue.level} WHERE id = $1", row_id)

    async def refuse_lease(self, row_id: int, *, also_burial: bool = False) -> None:
        """Make the database refuse to lease this row, as it refuses a row on a damaged page."""
        await self.pool.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
        )
        condition = "" if also_burial else "AND NEW.lease_token IS NOT NULL"
        await self.pool.execute(
            f"""CREATE TRIGGER refuse BEFORE UPDATE ON {self.queue.level} FOR EACH ROW
                WHEN (NEW.id = {row_id} {condition}) EXECUTE FUNCTION refuse()"""
        )


@pytest.fixture(params=[OutboxQueue(Level.EVENT), OutboxQueue(Level.NOTIFICATION)], ids=lambda queue: str(queue.level))
def harness(request: pytest.FixtureRequest, pool: Pool) -> Harness:
    return Harness(request.param, pool)


async def test_a_claim_leases_due_rows_up_to_its_limit(harness: Harness) -> None:
    ids = await harness.append(5)
    batch = await harness.claim(limit=3)
    assert [row["id"] for row in batch.rows] == ids[:3]
    assert batch.more
    assert not (await harness.claim(limit=3)).more


async def test_two_workers_never_claim_one_row(harness: Harness) -> None:
    ids = await harness.append(200)
    batches = await asyncio.gather(*(harness.claim(limit=30) for _ in range(10)))
    claimed = [row["id"] for batch in batches for row in batch.rows]
    assert len(claimed) == len(set(claimed))
    while rows := (await harness.claim(limit=50)).rows:
        claimed += [row["id"] for row in rows]
    assert sorted(claimed) == ids


async def test_a_row_that_is_not_due_yet_is_not_claimed(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    await harness.pool.execute(f"UPDATE {harness.queue.level} SET available_at = now() + interval '1 hour'")
    assert not (await harness.claim()).rows
    await harness.pool.execute(f"UPDATE {harness.queue.level} SET available_at = now() WHERE id = $1", row_id)
    assert (await harness.claim()).rows


async def test_an_expired_lease_makes_a_row_due_again(harness: Harness) -> None:
    ids = await harness.append(2)
    await harness.claim(lease=timedelta(milliseconds=50))
    assert not (await harness.claim()).rows
    await asyncio.sleep(0.06)
    again = await harness.claim()
    assert [row["id"] for row in again.rows] == ids


async def test_a_stale_lease_writes_nothing(harness: Harness) -> None:
    ids = await harness.append(1)
    lost = await harness.claim(lease=timedelta(0))
    current = await harness.claim()
    failures = [Failure(ids[0], "late", NO_PAUSE)]
    assert await harness.queue.complete_if_leased(harness.pool, ids, lost.token) == []
    assert await harness.queue.fail_if_leased(harness.pool, failures, lost.token, max_attempts=5) == {}
    assert await harness.queue.release_if_leased(harness.pool, failures, lost.token) == []
    assert await harness.statuses() == {"PROCESSING": 1}
    assert await harness.queue.complete_if_leased(harness.pool, ids, current.token) == ids


async def test_an_unknown_token_writes_nothing(harness: Harness) -> None:
    ids = await harness.append(1)
    assert await harness.queue.complete_if_leased(harness.pool, ids, uuid4()) == []


async def test_a_batch_is_completed_by_one_statement_and_never_claimed_again(harness: Harness) -> None:
    ids = await harness.append(50)
    batch = await harness.claim()
    assert sorted(await harness.queue.complete_if_leased(harness.pool, ids, batch.token)) == ids
    assert await harness.statuses() == {"PUBLISHED": 50}
    assert not (await harness.claim()).rows
    assert await harness.column("published_at", ids[0]) is not None


async def test_a_failure_counts_an_attempt_and_waits_for_its_pause(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    batch = await harness.claim()
    failure = Failure(row_id, "the broker refused it", timedelta(hours=1))
    failed = await harness.queue.fail_if_leased(harness.pool, [failure], batch.token, max_attempts=5)
    assert failed == {row_id: "FAILED"}
    assert await harness.statuses() == {"FAILED": 1}
    assert await harness.column("retry_count", row_id) == 1
    assert await harness.column("last_error", row_id) == "the broker refused it"
    assert not (await harness.claim()).rows


async def test_the_last_attempt_buries_the_row(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    outcomes = []
    for _ in range(5):
        batch = await harness.claim()
        failure = Failure(row_id, "no", NO_PAUSE)
        failed = await harness.queue.fail_if_leased(harness.pool, [failure], batch.token, max_attempts=5)
        outcomes.append(failed[row_id])
    assert outcomes == ["FAILED"] * 4 + ["DEAD"]
    assert await harness.column("retry_count", row_id) == 5
    assert not (await harness.claim()).rows


async def test_a_release_counts_no_attempt(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    for _ in range(10):
        batch = await harness.claim()
        failure = Failure(row_id, "away", NO_PAUSE)
        assert await harness.queue.release_if_leased(harness.pool, [failure], batch.token) == [row_id]
    assert await harness.column("retry_count", row_id) == 0
    assert await harness.column("last_error", row_id) == "away"
    assert (await harness.claim()).rows


async def test_a_release_with_a_pause_delays_the_row(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    batch = await harness.claim()
    await harness.queue.release_if_leased(harness.pool, [Failure(row_id, "away", timedelta(hours=1))], batch.token)
    assert not (await harness.claim()).rows


async def test_a_row_is_overdue_since_it_was_first_due_although_it_was_retried_and_released(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    await harness.pool.execute(f"UPDATE {harness.queue.level} SET available_at = now() - interval '1 hour'")
    for attempt in range(4):
        batch = await harness.claim()
        failure = Failure(row_id, "later", timedelta(milliseconds=1))
        if attempt % 2:
            await harness.queue.fail_if_leased(harness.pool, [failure], batch.token, max_attempts=99)
        else:
            await harness.queue.release_if_leased(harness.pool, [failure], batch.token)
        await asyncio.sleep(0.01)
    (delay,) = await harness.queue.measure_delays(harness.pool)
    assert delay.lag_seconds < 1800
    assert delay.overdue_seconds == pytest.approx(3600, abs=600)
    batch = await harness.claim()
    await harness.queue.bury_if_leased(harness.pool, [Failure(row_id, "no", NO_PAUSE)], batch.token)
    await harness.queue.requeue(harness.pool, [row_id])
    (delay,) = await harness.queue.measure_delays(harness.pool)
    assert delay.overdue_seconds < 1800, "a requeue by an operator makes the row due from now"


async def test_a_planned_row_is_first_due_at_its_planned_time(harness: Harness) -> None:
    """A reminder is not late because its row was written days before."""
    (row_id,) = await harness.append(1)
    await harness.pool.execute(
        f"UPDATE {harness.queue.level} SET created_at = now() - interval '2 days', available_at = now()"
    )
    batch = await harness.claim()
    await harness.queue.release_if_leased(harness.pool, [Failure(row_id, "away", timedelta(hours=1))], batch.token)
    (delay,) = await harness.queue.measure_delays(harness.pool)
    assert delay.lag_seconds == 0
    assert 0 < delay.overdue_seconds < 3600


async def test_a_row_that_cannot_be_leased_is_buried_and_the_others_are_leased(harness: Harness) -> None:
    ids = await harness.append(4)
    await harness.refuse_lease(ids[1])
    with pytest.raises(asyncpg.RaiseError):
        await harness.claim()
    batch = await harness.claim_one_by_one()
    assert ([row["id"] for row in batch.rows], batch.more) == ([ids[0], ids[2]], True)
    assert await harness.column("last_error", ids[1]) == "the row could not be claimed: RaiseError: refused"
    assert await harness.statuses() == {"PROCESSING": 2, "DEAD": 1, "PENDING": 1}
    leased = [ids[0], ids[2]]
    assert sorted(await harness.queue.complete_if_leased(harness.pool, leased, batch.token)) == leased
    assert [row["id"] for row in (await harness.claim()).rows] == [ids[3]]


async def test_a_row_that_cannot_be_buried_is_skipped(harness: Harness) -> None:
    ids = await harness.append(3)
    await harness.refuse_lease(ids[0], also_burial=True)
    batch = await harness.claim_one_by_one()
    assert [row["id"] for row in batch.rows] == ids[1:]
    assert await harness.statuses() == {"PROCESSING": 2, "PENDING": 1}


async def test_an_error_text_is_stored_whatever_characters_it_contains(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    batch = await harness.claim()
    failure = Failure(row_id, "a\x00b\ud800" + "x" * 5000, NO_PAUSE)
    await harness.queue.fail_if_leased(harness.pool, [failure], batch.token, max_attempts=5)
    error = await harness.column("last_error", row_id)
    assert error.startswith("ab?x")
    assert len(error) == 1000
