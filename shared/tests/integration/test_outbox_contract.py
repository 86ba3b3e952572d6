"""What every outbox promises, on the real tables of every level."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from tablebell.outbox import Batch, Failure, Level, Outbox, claim_one_by_one
from tablebell.postgres import Pool

from .levels import ATTEMPTS_COLUMN, DONE_COLUMN, DUE_COLUMN, LEASE, SCOPES, new_row

NOW = timedelta(0)


class Rig:
    """An outbox on its table, with what the tests do to it again and again."""

    def __init__(self, level: Level, pool: Pool) -> None:
        self.level = level
        self.pool = pool
        self.outbox = Outbox(level)

    async def append(self, count: int) -> list[int]:
        async with self.pool.acquire() as connection:
            return await self.outbox.append(connection, [new_row(self.level, n) for n in range(1, count + 1)])

    async def claim(self, limit: int = 100, lease: timedelta = LEASE):
        async with self.pool.acquire() as connection:
            return await self.outbox.claim(connection, SCOPES[self.level], limit=limit, lease=lease)

    async def statuses(self) -> dict[str, int]:
        async with self.pool.acquire() as connection:
            still = {count.status: count.rows for count in await self.outbox.count(connection)}
            return still | {count.status: count.rows for count in await self.outbox.count_done(connection)}

    async def column(self, name: str, row_id: int):
        return await self.pool.fetchval(f"SELECT {name} FROM {self.level} WHERE id = $1", row_id)

    async def make_dead(self, count: int) -> list[int]:
        ids = await self.append(count)
        batch = await self.claim()
        failures = [Failure(row_id, "boom", NOW) for row_id in ids]
        await self.outbox.fail_if_leased(self.pool, failures, batch.token, max_attempts=1)
        return ids


@pytest.fixture(params=list(Level), ids=str)
def rig(request: pytest.FixtureRequest, pool: Pool) -> Rig:
    return Rig(request.param, pool)


async def test_a_claim_takes_what_is_due_and_no_more_than_asked_for(rig: Rig) -> None:
    ids = await rig.append(5)
    batch = await rig.claim(limit=3)
    assert [row["id"] for row in batch.rows] == ids[:3]
    assert batch.more
    assert not (await rig.claim(limit=3)).more


async def test_two_workers_never_claim_one_row(rig: Rig) -> None:
    ids = await rig.append(200)
    batches = await asyncio.gather(*(rig.claim(limit=30) for _ in range(10)))
    claimed = [row["id"] for batch in batches for row in batch.rows]
    assert len(claimed) == len(set(claimed))
    while rows := (await rig.claim(limit=50)).rows:
        claimed += [row["id"] for row in rows]
    assert sorted(claimed) == ids


async def test_a_row_whose_time_has_not_come_is_left_alone(rig: Rig) -> None:
    (row_id,) = await rig.append(1)
    await rig.pool.execute(f"UPDATE {rig.level} SET {DUE_COLUMN[rig.level]} = now() + interval '1 hour'")
    assert not (await rig.claim()).rows
    await rig.pool.execute(f"UPDATE {rig.level} SET {DUE_COLUMN[rig.level]} = now() WHERE id = $1", row_id)
    assert (await rig.claim()).rows


async def test_a_row_whose_worker_died_is_claimed_again_when_its_lease_ends(rig: Rig) -> None:
    ids = await rig.append(2)
    await rig.claim(lease=timedelta(milliseconds=50))
    assert not (await rig.claim()).rows
    await asyncio.sleep(0.06)
    again = await rig.claim()
    assert [row["id"] for row in again.rows] == ids


async def test_a_worker_that_lost_its_lease_can_write_nothing(rig: Rig) -> None:
    ids = await rig.append(1)
    lost = await rig.claim(lease=timedelta(0))
    kept = await rig.claim()
    failures = [Failure(ids[0], "late", NOW)]
    assert await rig.outbox.complete_if_leased(rig.pool, ids, lost.token) == []
    assert await rig.outbox.fail_if_leased(rig.pool, failures, lost.token, max_attempts=5) == {}
    assert await rig.outbox.bury_if_leased(rig.pool, failures, lost.token) == []
    assert await rig.outbox.release_if_leased(rig.pool, failures, lost.token) == []
    assert await rig.outbox.extend_if_leased(rig.pool, ids, lost.token, LEASE) == []
    assert await rig.statuses() == {"PROCESSING": 1}
    assert await rig.outbox.complete_if_leased(rig.pool, ids, kept.token) == ids


async def test_an_extended_lease_keeps_others_away(rig: Rig) -> None:
    ids = await rig.append(1)
    batch = await rig.claim(lease=timedelta(milliseconds=50))
    assert await rig.outbox.extend_if_leased(rig.pool, ids, batch.token, LEASE) == ids
    await asyncio.sleep(0.06)
    assert not (await rig.claim()).rows


async def test_many_are_completed_at_once_and_never_claimed_again(rig: Rig) -> None:
    ids = await rig.append(50)
    batch = await rig.claim()
    assert sorted(await rig.outbox.complete_if_leased(rig.pool, ids, batch.token)) == ids
    assert await rig.statuses() == {"PUBLISHED": 50}
    assert not (await rig.claim()).rows
    assert await rig.column(DONE_COLUMN[rig.level], ids[0]) is not None


async def test_a_failure_is_counted_explained_and_waits_for_its_pause(rig: Rig) -> None:
    (row_id,) = await rig.append(1)
    batch = await rig.claim()
    failure = Failure(row_id, "the broker said no", timedelta(hours=1))
    assert await rig.outbox.fail_if_leased(rig.pool, [failure], batch.token, max_attempts=5) == {row_id: "FAILED"}
    assert await rig.statuses() == {"FAILED": 1}
    assert await rig.column(ATTEMPTS_COLUMN[rig.level], row_id) == 1
    assert await rig.column("last_error", row_id) == "the broker said no"
    assert not (await rig.claim()).rows


async def test_the_last_attempt_buries(rig: Rig) -> None:
    (row_id,) = await rig.append(1)
    outcomes = []
    for _ in range(5):
        batch = await rig.claim()
        failed = await rig.outbox.fail_if_leased(rig.pool, [Failure(row_id, "no", NOW)], batch.token, max_attempts=5)
        outcomes.append(failed[row_id])
    assert outcomes == ["FAILED"] * 4 + ["DEAD"]
    assert await rig.column(ATTEMPTS_COLUMN[rig.level], row_id) == 5
    assert not (await rig.claim()).rows


async def test_bury_gives_up_at_once(rig: Rig) -> None:
    (row_id,) = await rig.append(1)
    batch = await rig.claim()
    assert await rig.outbox.bury_if_leased(rig.pool, [Failure(row_id, "hopeless", NOW)], batch.token) == [row_id]
    assert await rig.statuses() == {"DEAD": 1}


async def test_an_outage_burns_no_attempt(rig: Rig) -> None:
    (row_id,) = await rig.append(1)
    for _ in range(10):
        batch = await rig.claim()
        released = await rig.outbox.release_if_leased(rig.pool, [Failure(row_id, "away", NOW)], batch.token)
        assert released == [row_id]
    assert await rig.column(ATTEMPTS_COLUMN[rig.level], row_id) == 0
    assert await rig.column("last_error", row_id) == "away"
    assert (await rig.claim()).rows


async def test_a_released_row_can_be_told_to_wait(rig: Rig) -> None:
    (row_id,) = await rig.append(1)
    batch = await rig.claim()
    await rig.outbox.release_if_leased(rig.pool, [Failure(row_id, "away", timedelta(hours=1))], batch.token)
    assert not (await rig.claim()).rows


async def test_requeue_gives_the_dead_all_their_attempts_again(rig: Rig) -> None:
    ids = await rig.make_dead(3)
    assert sorted(await rig.outbox.requeue(rig.pool, ids[:2])) == ids[:2]
    assert await rig.statuses() == {"PENDING": 2, "DEAD": 1}
    assert await rig.column(ATTEMPTS_COLUMN[rig.level], ids[0]) == 0
    assert [row["id"] for row in (await rig.claim()).rows] == ids[:2]


async def test_requeue_and_discard_touch_only_the_dead(rig: Rig) -> None:
    ids = await rig.append(2)
    batch = await rig.claim(limit=1)
    await rig.outbox.complete_if_leased(rig.pool, ids[:1], batch.token)
    assert await rig.outbox.requeue(rig.pool, ids) == []
    assert await rig.outbox.discard(rig.pool, ids) == []


async def test_discard_closes_the_dead_for_good(rig: Rig) -> None:
    ids = await rig.make_dead(2)
    assert await rig.outbox.discard(rig.pool, ids[:1]) == ids[:1]
    assert await rig.statuses() == {"DEAD": 1, "DISCARDED": 1}
    assert await rig.outbox.requeue(rig.pool, ids[:1]) == []


async def test_find_pages_through_a_status_and_filters_by_error(rig: Rig) -> None:
    ids = await rig.make_dead(5)
    await rig.pool.execute(f"UPDATE {rig.level} SET last_error = 'special 100%' WHERE id = $1", ids[4])
    found = await rig.outbox.find(rig.pool, status="DEAD", limit=3)
    assert [row["id"] for row in found] == ids[:3]
    rest = await rig.outbox.find(rig.pool, status="DEAD", after_id=found[-1]["id"])
    assert [row["id"] for row in rest] == ids[3:]
    by_error = await rig.outbox.find(rig.pool, status="DEAD", error_contains="100%")
    assert [(row["id"], row["last_error"]) for row in by_error] == [(ids[4], "special 100%")]
    by_id = await rig.outbox.find(rig.pool, status="DEAD", ids=ids[1:2])
    assert [row["id"] for row in by_id] == ids[1:2]
    assert await rig.outbox.find(rig.pool, status="PENDING") == []


async def test_count_tells_the_oldest_of_what_is_not_done(rig: Rig) -> None:
    ids = await rig.append(3)
    await rig.pool.execute(f"UPDATE {rig.level} SET created_at = now() - interval '1 hour' WHERE id = $1", ids[1])
    (count,) = await rig.outbox.count(rig.pool)
    assert (count.status, count.rows) == ("PENDING", 3)
    assert count.oldest == await rig.column("created_at", ids[1])


async def test_count_tells_since_when_a_row_is_due_however_often_it_is_put_off(rig: Rig) -> None:
    """A row that is released with a pause, or fails, is always due in the future; it is late all the same."""
    (row_id,) = await rig.append(1)
    first_due = await rig.column(DUE_COLUMN[rig.level], row_id)
    pause = timedelta(milliseconds=1)
    for attempt in range(4):
        batch = await rig.claim()
        failure = Failure(row_id, "later", pause)
        if attempt % 2:
            await rig.outbox.fail_if_leased(rig.pool, [failure], batch.token, max_attempts=99)
        else:
            await rig.outbox.release_if_leased(rig.pool, [failure], batch.token)
        await asyncio.sleep(0.01)
    assert await rig.column(DUE_COLUMN[rig.level], row_id) > first_due
    (count,) = await rig.outbox.count(rig.pool)
    assert count.first_due == first_due
    batch = await rig.claim()
    await rig.outbox.bury_if_leased(rig.pool, [Failure(row_id, "no", NOW)], batch.token)
    await rig.outbox.requeue(rig.pool, [row_id])
    (count,) = await rig.outbox.count(rig.pool)
    assert count.first_due > first_due, "an operator's requeue makes it due anew"


async def test_a_planned_row_is_due_at_its_time_and_not_before(rig: Rig) -> None:
    """Neither a reminder nor the end of quiet hours counts as late because the row was made earlier."""
    (row_id,) = await rig.append(1)
    await rig.pool.execute(
        f"UPDATE {rig.level} SET created_at = now() - interval '2 days', {DUE_COLUMN[rig.level]} = now()"
    )
    due = await rig.column(DUE_COLUMN[rig.level], row_id)
    batch = await rig.claim()
    await rig.outbox.release_if_leased(rig.pool, [Failure(row_id, "away", timedelta(hours=1))], batch.token)
    (count,) = await rig.outbox.count(rig.pool)
    assert count.first_due == due


async def refuse_lease(rig: Rig, row_id: int, *, also_burial: bool = False) -> None:
    """The database refuses to lease this row, as it would a row on a damaged page."""
    await rig.pool.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
    )
    condition = "" if also_burial else "AND NEW.lease_token IS NOT NULL"
    await rig.pool.execute(
        f"""CREATE TRIGGER refuse BEFORE UPDATE ON {rig.level} FOR EACH ROW
            WHEN (NEW.id = {row_id} {condition}) EXECUTE FUNCTION refuse()"""
    )


async def claim_one_by_one_of(rig: Rig) -> Batch:
    async with rig.pool.acquire() as connection:
        return await claim_one_by_one(rig.outbox, connection, SCOPES[rig.level], limit=3, lease=LEASE)


async def test_a_row_that_cannot_be_leased_is_buried_and_the_others_are_leased(rig: Rig) -> None:
    ids = await rig.append(4)
    await refuse_lease(rig, ids[1])
    with pytest.raises(asyncpg.RaiseError):
        await rig.claim()
    batch = await claim_one_by_one_of(rig)
    assert ([row["id"] for row in batch.rows], batch.more) == ([ids[0], ids[2]], True)
    assert await rig.column("last_error", ids[1]) == "the row could not be claimed: RaiseError: refused"
    assert await rig.statuses() == {"PROCESSING": 2, "DEAD": 1, "PENDING": 1}
    assert sorted(await rig.outbox.complete_if_leased(rig.pool, [ids[0], ids[2]], batch.token)) == [ids[0], ids[2]]
    assert [row["id"] for row in (await rig.claim()).rows] == [ids[3]]


async def test_a_row_that_cannot_be_buried_is_stepped_over(rig: Rig) -> None:
    ids = await rig.append(3)
    await refuse_lease(rig, ids[0], also_burial=True)
    batch = await claim_one_by_one_of(rig)
    assert [row["id"] for row in batch.rows] == ids[1:]
    assert await rig.statuses() == {"PROCESSING": 2, "PENDING": 1}


async def test_who_holds_a_row_keeps_it_from_being_buried_without_a_lease(rig: Rig) -> None:
    ids = await rig.append(1)
    batch = await rig.claim()
    assert await rig.outbox.bury_if_free(rig.pool, [Failure(ids[0], "no", NOW)]) == []
    await rig.outbox.complete_if_leased(rig.pool, ids, batch.token)
    assert await rig.outbox.bury_if_free(rig.pool, [Failure(ids[0], "no", NOW)]) == []


async def test_purge_deletes_the_old_and_done_in_bounded_batches_and_nothing_else(rig: Rig) -> None:
    ids = await rig.append(10)
    batch = await rig.claim()
    await rig.outbox.complete_if_leased(rig.pool, ids[:8], batch.token)
    await rig.outbox.bury_if_leased(rig.pool, [Failure(ids[8], "dead", NOW)], batch.token)
    await rig.pool.execute(
        f"UPDATE {rig.level} SET {DONE_COLUMN[rig.level]} = now() - interval '8 days' WHERE id <> $1", ids[0]
    )
    week = timedelta(days=7)
    purged = [await rig.outbox.purge(rig.pool, older_than=week, limit=5) for _ in range(3)]
    assert purged == [5, 2, 0]
    assert await rig.statuses() == {"PUBLISHED": 1, "DEAD": 1, "PROCESSING": 1}


async def test_an_error_text_from_outside_is_stored_whatever_it_holds(rig: Rig) -> None:
    (row_id,) = await rig.append(1)
    batch = await rig.claim()
    await rig.outbox.fail_if_leased(
        rig.pool, [Failure(row_id, "a\x00b\ud800" + "x" * 5000, NOW)], batch.token, max_attempts=5
    )
    error = await rig.column("last_error", row_id)
    assert error.startswith("ab?x")
    assert len(error) == 1000


async def test_nothing_is_written_by_a_token_that_nobody_gave_out(rig: Rig) -> None:
    ids = await rig.append(1)
    assert await rig.outbox.complete_if_leased(rig.pool, ids, uuid4()) == []


async def test_a_rolled_back_append_leaves_nothing(rig: Rig) -> None:
    async with rig.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await rig.outbox.append(connection, [new_row(rig.level, 1)])
        await transaction.rollback()
    assert await rig.statuses() == {}


def test_every_level_has_the_same_queries_and_each_has_its_method() -> None:
    named = {level: set(Outbox(level).sql) for level in Level}
    methods = {name for name in vars(Outbox) if not name.startswith("_")}
    assert all(names == methods for names in named.values())
