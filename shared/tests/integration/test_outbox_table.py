"""The contract of OutboxTable, on the tables of all three levels."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY

from tablebell.outbox import NO_PAUSE, Failure, Level, OutboxGauges, OutboxTable
from tablebell.postgres import Pool
from tablebell.testing import append_rows

from .levels import ATTEMPTS_COLUMN, DEAD_COLUMN, DONE_COLUMN, DUE_COLUMN, SCOPES, new_row, set_lease, set_status


class Harness:
    """An outbox table, with the steps that the tests repeat."""

    def __init__(self, level: Level, pool: Pool) -> None:
        self.level = level
        self.pool = pool
        self.table = OutboxTable(level)

    async def append(self, count: int) -> list[int]:
        return await append_rows(self.pool, self.level, [new_row(self.level, n) for n in range(1, count + 1)])

    async def append_dead(self, count: int) -> list[int]:
        ids = await self.append(count)
        await set_status(self.pool, self.level, ids, "DEAD")
        return ids

    async def due(self, limit: int = 100) -> list[int]:
        return [position.id for position in await self.table.find_due(self.pool, SCOPES[self.level], limit=limit)]

    async def statuses(self) -> Mapping[str, int]:
        statuses = {count.status: count.rows for count in await self.table.count(self.pool)}
        return statuses | {count.status: count.rows for count in await self.table.count_done(self.pool)}

    async def column(self, name: str, row_id: int) -> Any:
        return await self.pool.fetchval(f"SELECT {name} FROM {self.level} WHERE id = $1", row_id)


@pytest.fixture(params=list(Level), ids=str)
def harness(request: pytest.FixtureRequest, pool: Pool) -> Harness:
    return Harness(request.param, pool)


async def test_find_due_returns_due_rows_without_a_valid_lease_in_order(harness: Harness) -> None:
    ids = await harness.append(5)
    await harness.pool.execute(
        f"UPDATE {harness.level} SET {DUE_COLUMN[harness.level]} = now() + interval '1 hour' WHERE id = $1", ids[0]
    )
    await set_lease(harness.pool, harness.level, ids[1:2], uuid4())
    await set_lease(harness.pool, harness.level, ids[2:3], uuid4(), timedelta(seconds=-1))
    assert await harness.due() == ids[2:]
    (first,) = await harness.table.find_due(harness.pool, SCOPES[harness.level], limit=1)
    rest = await harness.table.find_due(harness.pool, SCOPES[harness.level], limit=10, after=first)
    assert [position.id for position in rest] == ids[3:]


async def test_a_row_is_buried_only_under_its_current_lease(harness: Harness) -> None:
    (row_id,) = await harness.append(1)
    token = uuid4()
    await set_lease(harness.pool, harness.level, [row_id], token)
    failure = Failure(row_id, "hopeless", NO_PAUSE)
    assert await harness.table.bury_if_leased(harness.pool, [failure], uuid4()) == []
    assert await harness.statuses() == {"PROCESSING": 1}
    assert await harness.table.bury_if_leased(harness.pool, [failure], token) == [row_id]
    assert await harness.statuses() == {"DEAD": 1}
    assert await harness.column("last_error", row_id) == "hopeless"


async def test_a_row_without_a_lease_is_buried_only_while_it_is_open_and_free(harness: Harness) -> None:
    free, leased, done = await harness.append(3)
    await set_lease(harness.pool, harness.level, [leased], uuid4())
    await set_status(harness.pool, harness.level, [done], "PUBLISHED")
    failures = [Failure(row_id, "no", NO_PAUSE) for row_id in (free, leased, done)]
    assert await harness.table.bury_if_free(harness.pool, failures) == [free]
    assert await harness.statuses() == {"PROCESSING": 1, "DEAD": 1, "PUBLISHED": 1}


async def test_requeue_reopens_dead_rows_with_all_their_attempts(harness: Harness) -> None:
    ids = await harness.append_dead(3)
    assert sorted(await harness.table.requeue(harness.pool, ids[:2])) == ids[:2]
    assert await harness.statuses() == {"PENDING": 2, "DEAD": 1}
    assert await harness.column(ATTEMPTS_COLUMN[harness.level], ids[0]) == 0
    assert sorted(await harness.due()) == ids[:2]


async def test_requeue_and_discard_change_only_dead_rows(harness: Harness) -> None:
    ids = await harness.append(2)
    await set_status(harness.pool, harness.level, ids[:1], "PUBLISHED")
    assert await harness.table.requeue(harness.pool, ids) == []
    assert await harness.table.discard(harness.pool, ids) == []


async def test_discard_closes_dead_rows_permanently(harness: Harness) -> None:
    ids = await harness.append_dead(2)
    assert await harness.table.discard(harness.pool, ids[:1]) == ids[:1]
    assert await harness.statuses() == {"DEAD": 1, "DISCARDED": 1}
    assert await harness.table.requeue(harness.pool, ids[:1]) == []


async def test_find_pages_through_a_status_and_filters_by_error(harness: Harness) -> None:
    ids = await harness.append_dead(5)
    await harness.pool.execute(f"UPDATE {harness.level} SET last_error = 'special 100%' WHERE id = $1", ids[4])
    found = await harness.table.find(harness.pool, status="DEAD", limit=3)
    assert [row["id"] for row in found] == ids[:3]
    rest = await harness.table.find(harness.pool, status="DEAD", after_id=found[-1]["id"])
    assert [row["id"] for row in rest] == ids[3:]
    by_error = await harness.table.find(harness.pool, status="DEAD", error_contains="100%")
    assert [(row["id"], row["last_error"]) for row in by_error] == [(ids[4], "special 100%")]
    by_id = await harness.table.find(harness.pool, status="DEAD", ids=ids[1:2])
    assert [row["id"] for row in by_id] == ids[1:2]
    assert await harness.table.find(harness.pool, status="PENDING") == []


async def test_count_reports_the_oldest_open_row(harness: Harness) -> None:
    ids = await harness.append(3)
    await harness.pool.execute(
        f"UPDATE {harness.level} SET created_at = now() - interval '1 hour' WHERE id = $1", ids[1]
    )
    (count,) = await harness.table.count(harness.pool)
    assert (count.status, count.rows) == ("PENDING", 3)
    assert count.oldest == await harness.column("created_at", ids[1])


async def test_the_gauges_have_the_same_names_on_every_level(harness: Harness) -> None:
    ids = await harness.append(3)
    await set_status(harness.pool, harness.level, ids[:1], "DEAD")
    due = DUE_COLUMN[harness.level]
    await harness.pool.execute(f"UPDATE {harness.level} SET {due} = now() + interval '1 hour' WHERE id = $1", ids[1])
    channel = SCOPES[harness.level] if harness.level is Level.CHANNEL_SEND else None
    gauges = OutboxGauges(harness.pool, harness.table, (channel,))

    await gauges.refresh()
    assert sampled("outbox_rows", harness.level, status="PENDING") == 2
    assert sampled("outbox_rows", harness.level, status="DEAD") == 1
    assert sampled("outbox_rows", harness.level, status="FAILED") == 0

    await harness.pool.execute(f"UPDATE {harness.level} SET {due} = now() - interval '1 hour' WHERE id = $1", ids[2])
    await gauges.refresh()
    assert sampled("outbox_lag_seconds", harness.level, channel=channel or "") == pytest.approx(3600, abs=600)
    assert sampled("outbox_overdue_seconds", harness.level, channel=channel or "") == pytest.approx(3600, abs=600)

    await set_status(harness.pool, harness.level, ids[1:], "PUBLISHED")
    await gauges.refresh()
    assert sampled("outbox_rows", harness.level, status="PENDING") == 0
    assert sampled("outbox_lag_seconds", harness.level, channel=channel or "") == 0
    assert sampled("outbox_overdue_seconds", harness.level, channel=channel or "") == 0


def sampled(name: str, level: Level, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"level": level, **labels})


async def test_purge_done_deletes_old_done_rows_up_to_its_limit_and_nothing_else(harness: Harness) -> None:
    ids = await harness.append(10)
    await set_status(harness.pool, harness.level, ids[:8], "PUBLISHED")
    await set_status(harness.pool, harness.level, ids[8:9], "DEAD")
    await harness.pool.execute(
        f"UPDATE {harness.level} SET {DONE_COLUMN[harness.level]} = now() - interval '8 days' WHERE id <> $1", ids[0]
    )
    purged = [await harness.table.purge_done(harness.pool, timedelta(days=7), limit=5) for _ in range(3)]
    assert purged == [5, 2, 0]
    assert await harness.statuses() == {"PUBLISHED": 1, "DEAD": 1, "PENDING": 1}


async def test_purge_dead_deletes_rows_that_have_been_dead_for_long(harness: Harness) -> None:
    ids = await harness.append(9)
    await set_status(harness.pool, harness.level, ids[:7], "DEAD")
    await set_status(harness.pool, harness.level, ids[7:8], "PUBLISHED")
    await harness.pool.execute(
        f"UPDATE {harness.level} SET {DEAD_COLUMN[harness.level]} = now() - interval '31 days' WHERE id <> $1", ids[0]
    )
    # A planned event is written long before it is due: its age does not count.
    await harness.pool.execute(f"UPDATE {harness.level} SET created_at = now() - interval '99 days'")
    purged = [await harness.table.purge_dead(harness.pool, timedelta(days=30), limit=4) for _ in range(3)]
    assert purged == [4, 2, 0]
    assert await harness.statuses() == {"PUBLISHED": 1, "DEAD": 1, "PENDING": 1}
    assert await harness.column("id", ids[0]) == ids[0]
