"""A claim reads open rows by their partial index, whatever the size of the history."""

from datetime import timedelta
from uuid import uuid4

import pytest

from tablebell.outbox import CLAIM_PLANNER_SETTINGS, START, Level, OutboxQueue, OutboxTable
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, append_rows, plan

from .levels import ALL_PARTITIONS, LEASE, new_row, set_status

CLAIM_INDEXES = {
    Level.EVENT: {"event_outbox_claim", "event_outbox_order", "event_outbox_pkey"},
    Level.NOTIFICATION: {"notification_outbox_claim", "notification_outbox_pkey"},
}
HISTORY = 20_000


async def fill(pool: Pool, level: Level) -> None:
    """Write a long history and a few open rows, with the statistics that autovacuum gathers."""
    done = await append_rows(pool, level, [new_row(level, n) for n in range(1, HISTORY + 1)])
    await set_status(pool, level, done, "PUBLISHED")
    await append_rows(pool, level, [new_row(level, HISTORY + n) for n in range(1, 101)])
    await pool.execute(f"VACUUM ANALYZE {level}")


@pytest.fixture(params=[OutboxQueue(Level.EVENT), OutboxQueue(Level.NOTIFICATION)], ids=lambda queue: str(queue.level))
async def queue(request: pytest.FixtureRequest, pool: Pool) -> OutboxQueue:
    queue: OutboxQueue = request.param
    await fill(pool, queue.level)
    return queue


async def test_a_claim_stays_on_its_indexes(queue: OutboxQueue, pool: Pool) -> None:
    nodes = await plan(pool, queue.sql["claim"], ALL_PARTITIONS, 50, uuid4(), LEASE, START.due, START.id)
    on_the_table = [node for node in nodes if node.get("Relation Name") == queue.level and "Scan" in node["Node Type"]]
    assert on_the_table, "the plan has no scan of the outbox: the test looks at the wrong thing"
    assert {node["Node Type"] for node in on_the_table} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert used <= CLAIM_INDEXES[queue.level]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on_the_table) <= 300


async def test_a_claim_from_an_unexpected_backlog_stops_at_its_limit(
    queue: OutboxQueue, database: Database, pool: Pool
) -> None:
    """The statistics show a hundred open rows; there are fifty times as many."""
    await append_rows(pool, queue.level, [new_row(queue.level, HISTORY + 100 + n) for n in range(1, 5001)])
    async with open_pool(database.url, "test", 1, CLAIM_PLANNER_SETTINGS) as claiming:
        nodes = await plan(claiming, queue.sql["claim"], ALL_PARTITIONS, 50, uuid4(), LEASE, START.due, START.id)
    on_the_table = [node for node in nodes if node.get("Relation Name") == queue.level and "Scan" in node["Node Type"]]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on_the_table) <= 300


async def test_a_claim_reads_no_more_of_an_aggregate_than_it_can_lease(database: Database, pool: Pool) -> None:
    """Thousands of events of one version: a user marks a whole inbox as read."""
    queue = OutboxQueue(Level.EVENT)
    await append_rows(pool, Level.EVENT, [new_row(Level.EVENT, 1) for _ in range(5000)])
    await pool.execute("VACUUM ANALYZE event_outbox")
    async with open_pool(database.url, "test", 1, CLAIM_PLANNER_SETTINGS) as claiming:
        nodes = await plan(claiming, queue.sql["claim"], ALL_PARTITIONS, 50, uuid4(), LEASE, START.due, START.id)
    on_the_table = [
        node for node in nodes if node.get("Relation Name") == "event_outbox" and "Scan" in node["Node Type"]
    ]
    assert {node["Index Name"] for node in nodes if "Index Name" in node} <= CLAIM_INDEXES[Level.EVENT]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on_the_table) <= 300


async def test_the_position_is_an_index_condition(queue: OutboxQueue, pool: Pool) -> None:
    nodes = await plan(pool, queue.sql["claim"], ALL_PARTITIONS, 50, uuid4(), LEASE, START.due, START.id)
    conditions = [node.get("Index Cond", "") for node in nodes if node.get("Index Name", "").endswith("_claim")]
    assert any("ROW(" in condition for condition in conditions), conditions


@pytest.mark.parametrize("level", list(Level))
async def test_a_purge_stays_on_its_index(level: Level, pool: Pool) -> None:
    await fill(pool, level)
    dead = await append_rows(pool, level, [new_row(level, 2 * HISTORY + n) for n in range(1, 2001)])
    await set_status(pool, level, dead, "DEAD")
    await pool.execute(f"VACUUM ANALYZE {level}")
    for name in ("done", "dead_age"):
        query = OutboxTable(level).sql["purge_done" if name == "done" else "purge_dead"]
        nodes = await plan(pool, query, timedelta(days=7), 1000)
        assert f"{level}_{name}" in {node.get("Index Name") for node in nodes}
        assert "Seq Scan" not in {node["Node Type"] for node in nodes}
