"""The order of L0: the events of one aggregate are leased by version, whichever worker claims."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tablebell.outbox import START, Failure, Level, OutboxQueue
from tablebell.postgres import Pool
from tablebell.testing import append_rows

from .levels import ALL_PARTITIONS, LEASE, new_row

outbox = OutboxQueue(Level.EVENT)


def event(aggregate: int, version: int, **columns):
    return new_row(Level.EVENT, aggregate, aggregate_version=version, **columns)


async def claim(
    pool: Pool, limit: int = 100, partitions: list[int] = ALL_PARTITIONS, after=START, lease=LEASE, token=None
):
    return await outbox.claim(pool, partitions, limit=limit, lease=lease, after=after, token=token)


def versions(batch) -> list[tuple[int, int]]:
    return [(row["aggregate_id"], row["aggregate_version"]) for row in batch.rows]


async def test_a_batch_holds_an_aggregates_events_by_version_even_if_written_out_of_order(pool: Pool) -> None:
    await append_rows(pool, Level.EVENT, [event(1, 2), event(1, 1), event(1, 3)])
    assert versions(await claim(pool)) == [(1, 1), (1, 2), (1, 3)]


async def test_an_event_beyond_the_limit_blocks_its_successors(pool: Pool) -> None:
    await append_rows(pool, Level.EVENT, [event(1, 2), event(1, 1)])
    assert versions(await claim(pool, limit=1)) == []
    assert versions(await claim(pool, limit=2)) == [(1, 1), (1, 2)]


async def test_an_event_in_flight_blocks_only_its_successors(pool: Pool) -> None:
    await append_rows(pool, Level.EVENT, [event(1, 1), event(2, 1)])
    first = await claim(pool, limit=1)
    await append_rows(pool, Level.EVENT, [event(1, 2)])
    assert versions(await claim(pool)) == [(2, 1)]
    await outbox.complete_if_leased(pool, [first.rows[0]["id"]], first.token)
    assert versions(await claim(pool)) == [(1, 2)]


async def test_claiming_with_the_same_token_returns_successors_of_leased_events(pool: Pool) -> None:
    await append_rows(pool, Level.EVENT, [event(1, 1), event(1, 2), event(1, 3), event(2, 1)])
    first = await claim(pool, limit=1)
    assert versions(await claim(pool)) == [(2, 1)], "nobody else is"
    assert versions(await claim(pool, limit=1, token=first.token)) == [(1, 2)]
    await outbox.complete_if_leased(pool, [first.rows[0]["id"]], first.token)
    assert versions(await claim(pool, token=first.token)) == [(1, 3)], "version 2 is in flight and version 1 is done"


async def test_a_token_with_an_expired_lease_holds_nothing(pool: Pool) -> None:
    await append_rows(pool, Level.EVENT, [event(1, 1), event(1, 2)])
    first = await claim(pool, limit=1, lease=timedelta(0))
    again = await claim(pool, token=first.token)
    assert versions(again) == [(1, 1), (1, 2)], "both anew, in order"


async def test_a_failed_event_blocks_its_successors_until_it_is_retried(pool: Pool) -> None:
    (first,) = await append_rows(pool, Level.EVENT, [event(1, 1)])
    batch = await claim(pool)
    await outbox.fail_if_leased(pool, [Failure(first, "no", timedelta(milliseconds=80))], batch.token, max_attempts=5)
    await append_rows(pool, Level.EVENT, [event(1, 2), event(2, 1)])
    assert versions(await claim(pool)) == [(2, 1)]
    await asyncio.sleep(0.1)
    assert versions(await claim(pool)) == [(1, 1), (1, 2)]


async def test_an_event_released_by_an_outage_blocks_its_successors(pool: Pool) -> None:
    (first,) = await append_rows(pool, Level.EVENT, [event(1, 1)])
    batch = await claim(pool)
    await outbox.release_if_leased(pool, [Failure(first, "away", timedelta(hours=1))], batch.token)
    await append_rows(pool, Level.EVENT, [event(1, 2)])
    assert versions(await claim(pool)) == []


async def test_a_dead_event_blocks_nothing(pool: Pool) -> None:
    (first, _) = await append_rows(pool, Level.EVENT, [event(1, 1), event(1, 2)])
    batch = await claim(pool)
    await outbox.bury_if_leased(pool, [Failure(first, "no", timedelta(0))], batch.token)
    rest = [row["id"] for row in batch.rows if row["id"] != first]
    await outbox.release_if_leased(pool, [Failure(rest[0], "", timedelta(0))], batch.token)
    assert versions(await claim(pool)) == [(1, 2)]


async def test_a_planned_event_blocks_nothing(pool: Pool) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await append_rows(pool, Level.EVENT, [event(1, 1, available_at=tomorrow, schedule_key="reminder-24h"), event(1, 2)])
    assert versions(await claim(pool)) == [(1, 2)]


async def test_an_aggregate_has_one_open_planned_event_of_a_kind(pool: Pool) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await append_rows(pool, Level.EVENT, [event(1, 1, available_at=tomorrow, schedule_key="reminder-2h")])
    with pytest.raises(asyncpg.UniqueViolationError):
        await append_rows(pool, Level.EVENT, [event(1, 2, available_at=tomorrow, schedule_key="reminder-2h")])


async def test_an_aggregate_has_one_open_planned_event_of_a_kind_while_the_first_is_in_flight_too(pool: Pool) -> None:
    """So a release, which makes it PENDING, never violates the unique index."""
    await append_rows(pool, Level.EVENT, [event(1, 1, schedule_key="reminder-2h")])
    await claim(pool)
    with pytest.raises(asyncpg.UniqueViolationError):
        await append_rows(pool, Level.EVENT, [event(1, 2, schedule_key="reminder-2h")])


async def bury(pool: Pool) -> None:
    batch = await claim(pool)
    await outbox.bury_if_leased(pool, [Failure(row["id"], "no", timedelta(0)) for row in batch.rows], batch.token)


async def test_a_dead_planned_event_stays_dead_while_a_newer_one_is_open(pool: Pool) -> None:
    dead, other = await append_rows(pool, Level.EVENT, [event(1, 1, schedule_key="reminder-2h"), event(2, 1)])
    await bury(pool)
    (newer,) = await append_rows(pool, Level.EVENT, [event(1, 2, schedule_key="reminder-2h")])
    assert await outbox.requeue(pool, [dead, other]) == [other]
    batch = await claim(pool)
    assert await outbox.requeue(pool, [dead]) == [], "in flight is open too"
    await outbox.complete_if_leased(pool, [newer], batch.token)
    assert await outbox.requeue(pool, [dead]) == [dead]


async def test_of_two_dead_planned_events_of_a_kind_the_newer_is_requeued(pool: Pool) -> None:
    (older,) = await append_rows(pool, Level.EVENT, [event(1, 1, schedule_key="reminder-2h")])
    await bury(pool)
    (newer,) = await append_rows(pool, Level.EVENT, [event(1, 2, schedule_key="reminder-2h")])
    await bury(pool)
    assert await outbox.requeue(pool, [older, newer]) == [newer]


async def test_events_of_one_version_are_leased_by_id_however_many_there_are(pool: Pool) -> None:
    """One aggregate, one version, more than a batch: a user marks a whole inbox as read."""
    ids = await append_rows(pool, Level.EVENT, [event(1, 1) for _ in range(25)] + [event(1, 2)])
    claimed = []
    while rows := (batch := await claim(pool, limit=10)).rows:
        claimed += [row["id"] for row in rows]
        await outbox.complete_if_leased(pool, [row["id"] for row in rows], batch.token)
    assert claimed == ids


async def test_events_of_one_version_block_each_other_by_id(pool: Pool) -> None:
    first, second, third = await append_rows(pool, Level.EVENT, [event(1, 1), event(1, 1), event(1, 2)])
    batch = await claim(pool, limit=1)
    assert [row["id"] for row in batch.rows] == [first]
    assert [row["id"] for row in (await claim(pool, limit=1, token=batch.token)).rows] == [second]
    await outbox.fail_if_leased(pool, [Failure(first, "no", timedelta(hours=1))], batch.token, max_attempts=5)
    await outbox.release_if_leased(pool, [Failure(second, "", timedelta(0))], batch.token)
    held = await claim(pool)
    assert ([row["id"] for row in held.rows], [row["id"] for row in held.held]) == ([], [second, third])


async def test_a_claim_in_an_open_transaction_is_not_overtaken(pool: Pool) -> None:
    """Two workers claim one partition: the second must not pass rows that the first has locked."""
    await append_rows(pool, Level.EVENT, [event(1, 1), event(1, 2), event(2, 1)])
    async with pool.acquire() as one, one.transaction():
        held = await outbox.claim(one, ALL_PARTITIONS, limit=1, lease=LEASE)
        assert versions(held) == [(1, 1)]
        assert versions(await claim(pool)) == [(2, 1)]


async def test_a_claim_leases_only_its_partitions(pool: Pool) -> None:
    await append_rows(pool, Level.EVENT, [event(aggregate, 1) for aggregate in range(32)])
    assert sorted(versions(await claim(pool, partitions=[3, 5]))) == [(3, 1), (5, 1), (19, 1), (21, 1)]


async def test_a_claim_cursor_passes_blocked_events(pool: Pool) -> None:
    """Many successors of one failed event must not hide later work."""
    (first,) = await append_rows(pool, Level.EVENT, [event(1, 1)])
    batch = await claim(pool)
    await outbox.fail_if_leased(pool, [Failure(first, "no", timedelta(hours=1))], batch.token, max_attempts=5)
    await append_rows(pool, Level.EVENT, [event(1, version) for version in range(2, 52)] + [event(2, 1)])
    claimed, after = [], START
    while True:
        batch = await claim(pool, limit=10, after=after)
        claimed += versions(batch)
        after = batch.reached
        if not batch.more:
            break
    assert claimed == [(2, 1)]


async def test_concurrent_claims_keep_the_order_of_every_aggregate(pool: Pool) -> None:
    """Eight workers claim the same partitions, and each completes at its own speed."""
    await append_rows(
        pool, Level.EVENT, [event(aggregate, version) for version in range(1, 11) for aggregate in range(10)]
    )
    seen: dict[int, list[int]] = {}

    async def work() -> None:
        idle = 0
        while idle < 20:
            batch = await claim(pool, limit=7)
            for row in batch.rows:
                seen.setdefault(row["aggregate_id"], []).append(row["aggregate_version"])
            idle = 0 if batch.rows else idle + 1
            await asyncio.sleep(0.002)
            await outbox.complete_if_leased(pool, [row["id"] for row in batch.rows], batch.token)

    await asyncio.gather(*(work() for _ in range(8)))
    assert seen == {aggregate: list(range(1, 11)) for aggregate in range(10)}
