"""L0's own promise: the events of one aggregate are leased in the order of their version, whoever claims."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tablebell.outbox import START, Failure, Level, Outbox
from tablebell.postgres import Pool

from .levels import ALL_PARTITIONS, LEASE, new_row

outbox = Outbox(Level.EVENT)


def event(aggregate: int, version: int, **columns):
    return new_row(Level.EVENT, aggregate, aggregate_version=version, **columns)


async def claim(
    pool: Pool, limit: int = 100, partitions: list[int] = ALL_PARTITIONS, after=START, lease=LEASE, token=None
):
    return await outbox.claim(pool, partitions, limit=limit, lease=lease, after=after, token=token)


def versions(batch) -> list[tuple[int, int]]:
    return [(row["aggregate_id"], row["aggregate_version"]) for row in batch.rows]


async def test_a_batch_holds_an_aggregates_events_by_version_even_if_written_out_of_order(pool: Pool) -> None:
    await outbox.append(pool, [event(1, 2), event(1, 1), event(1, 3)])
    assert versions(await claim(pool)) == [(1, 1), (1, 2), (1, 3)]


async def test_an_event_beyond_the_limit_keeps_its_followers_waiting(pool: Pool) -> None:
    await outbox.append(pool, [event(1, 2), event(1, 1)])
    assert versions(await claim(pool, limit=1)) == []
    assert versions(await claim(pool, limit=2)) == [(1, 1), (1, 2)]


async def test_an_event_in_flight_holds_back_its_followers_and_nobody_else(pool: Pool) -> None:
    await outbox.append(pool, [event(1, 1), event(2, 1)])
    first = await claim(pool, limit=1)
    await outbox.append(pool, [event(1, 2)])
    assert versions(await claim(pool)) == [(2, 1)]
    await outbox.complete_if_leased(pool, [first.rows[0]["id"]], first.token)
    assert versions(await claim(pool)) == [(1, 2)]


async def test_who_claims_again_with_its_token_is_given_what_follows_what_it_holds(pool: Pool) -> None:
    await outbox.append(pool, [event(1, 1), event(1, 2), event(1, 3), event(2, 1)])
    first = await claim(pool, limit=1)
    assert versions(await claim(pool)) == [(2, 1)], "nobody else is"
    assert versions(await claim(pool, limit=1, token=first.token)) == [(1, 2)]
    await outbox.complete_if_leased(pool, [first.rows[0]["id"]], first.token)
    assert versions(await claim(pool, token=first.token)) == [(1, 3)], "version 2 is in flight and version 1 is done"


async def test_a_token_whose_lease_is_over_holds_nothing(pool: Pool) -> None:
    await outbox.append(pool, [event(1, 1), event(1, 2)])
    first = await claim(pool, limit=1, lease=timedelta(0))
    again = await claim(pool, token=first.token)
    assert versions(again) == [(1, 1), (1, 2)], "both anew, in order"


async def test_a_failed_event_holds_back_its_followers_until_it_is_retried(pool: Pool) -> None:
    (first,) = await outbox.append(pool, [event(1, 1)])
    batch = await claim(pool)
    await outbox.fail_if_leased(pool, [Failure(first, "no", timedelta(milliseconds=80))], batch.token, max_attempts=5)
    await outbox.append(pool, [event(1, 2), event(2, 1)])
    assert versions(await claim(pool)) == [(2, 1)]
    await asyncio.sleep(0.1)
    assert versions(await claim(pool)) == [(1, 1), (1, 2)]


async def test_an_event_put_back_by_an_outage_holds_back_its_followers_too(pool: Pool) -> None:
    (first,) = await outbox.append(pool, [event(1, 1)])
    batch = await claim(pool)
    await outbox.release_if_leased(pool, [Failure(first, "away", timedelta(hours=1))], batch.token)
    await outbox.append(pool, [event(1, 2)])
    assert versions(await claim(pool)) == []


async def test_a_dead_event_lets_the_others_go_on(pool: Pool) -> None:
    (first, _) = await outbox.append(pool, [event(1, 1), event(1, 2)])
    batch = await claim(pool)
    await outbox.bury_if_leased(pool, [Failure(first, "no", timedelta(0))], batch.token)
    rest = [row["id"] for row in batch.rows if row["id"] != first]
    await outbox.release_if_leased(pool, [Failure(rest[0], "", timedelta(0))], batch.token)
    assert versions(await claim(pool)) == [(1, 2)]


async def test_a_planned_event_holds_back_nothing(pool: Pool) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await outbox.append(pool, [event(1, 1, available_at=tomorrow, schedule_key="reminder-24h"), event(1, 2)])
    assert versions(await claim(pool)) == [(1, 2)]


async def test_an_aggregate_has_one_open_planned_event_of_a_kind(pool: Pool) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    await outbox.append(pool, [event(1, 1, available_at=tomorrow, schedule_key="reminder-2h")])
    with pytest.raises(asyncpg.UniqueViolationError):
        await outbox.append(pool, [event(1, 2, available_at=tomorrow, schedule_key="reminder-2h")])


async def test_a_claimer_that_is_still_in_its_transaction_is_not_overtaken(pool: Pool) -> None:
    """Two that both believe they own a partition: what one holds unseen, the other must not step past."""
    await outbox.append(pool, [event(1, 1), event(1, 2), event(2, 1)])
    async with pool.acquire() as one, one.transaction():
        held = await outbox.claim(one, ALL_PARTITIONS, limit=1, lease=LEASE)
        assert versions(held) == [(1, 1)]
        assert versions(await claim(pool)) == [(2, 1)]


async def test_a_claim_takes_only_the_partitions_it_is_given(pool: Pool) -> None:
    await outbox.append(pool, [event(aggregate, 1) for aggregate in range(32)])
    assert sorted(versions(await claim(pool, partitions=[3, 5]))) == [(3, 1), (5, 1), (19, 1), (21, 1)]


async def test_a_sweep_steps_past_what_is_held_back(pool: Pool) -> None:
    """Many followers behind one failed event must not hide the work behind them."""
    (first,) = await outbox.append(pool, [event(1, 1)])
    batch = await claim(pool)
    await outbox.fail_if_leased(pool, [Failure(first, "no", timedelta(hours=1))], batch.token, max_attempts=5)
    await outbox.append(pool, [event(1, version) for version in range(2, 52)] + [event(2, 1)])
    claimed, after = [], START
    while True:
        batch = await claim(pool, limit=10, after=after)
        claimed += versions(batch)
        after = batch.reached
        if not batch.more:
            break
    assert claimed == [(2, 1)]


async def test_racing_claimers_keep_the_order_of_every_aggregate(pool: Pool) -> None:
    """Eight claimers, no partitions between them, each completing in its own time: first come, in order."""
    await outbox.append(pool, [event(aggregate, version) for version in range(1, 11) for aggregate in range(10)])
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
