"""A claim reads the open rows by their partial index, whatever the history holds."""

from datetime import timedelta
from uuid import uuid4

import pytest

from tablebell.outbox import CLAIM_PLANNER_SETTINGS, START, Level, Outbox
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, plan

from .levels import LEASE, SCOPES, new_row

CLAIM_INDEXES = {
    Level.EVENT: {"event_outbox_claim", "event_outbox_order", "event_outbox_pkey"},
    Level.NOTIFICATION: {"notification_outbox_claim", "notification_outbox_pkey"},
    Level.CHANNEL_SEND: {"notification_channel_send_claim", "notification_channel_send_pkey"},
}
PURGE_INDEXES = {
    Level.EVENT: "event_outbox_done",
    Level.NOTIFICATION: "notification_outbox_done",
    Level.CHANNEL_SEND: "notification_channel_send_done",
}
HISTORY = 20_000


@pytest.fixture(params=list(Level), ids=str)
async def outbox(request: pytest.FixtureRequest, pool: Pool) -> Outbox:
    """With a long history, a few open rows, and the statistics that an autovacuum would have gathered."""
    outbox = Outbox(request.param)
    await outbox.append(pool, [new_row(outbox.level, n) for n in range(1, HISTORY + 1)])
    done = {
        Level.EVENT: "status = 'PUBLISHED', published_at = now()",
        Level.NOTIFICATION: "status = 'PUBLISHED', published_at = now()",
        Level.CHANNEL_SEND: "is_sent = true, outcome = 'SENT', sent_at = now()",
    }
    await pool.execute(f"UPDATE {outbox.level} SET {done[outbox.level]}")
    await outbox.append(pool, [new_row(outbox.level, HISTORY + n) for n in range(1, 101)])
    await pool.execute(f"VACUUM ANALYZE {outbox.level}")
    return outbox


async def test_a_claim_stays_on_its_indexes(outbox: Outbox, pool: Pool) -> None:
    scope = SCOPES[outbox.level]
    nodes = await plan(pool, outbox.sql["claim"], scope, 50, uuid4(), LEASE, START.due, START.id)
    on_the_table = [node for node in nodes if node.get("Relation Name") == outbox.level and "Scan" in node["Node Type"]]
    assert on_the_table, "the plan has no scan of the outbox: the test looks at the wrong thing"
    assert {node["Node Type"] for node in on_the_table} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
    used = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert used <= CLAIM_INDEXES[outbox.level]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on_the_table) <= 300


async def test_a_claim_from_a_backlog_that_nobody_expected_stops_after_its_limit(
    outbox: Outbox, database: Database, pool: Pool
) -> None:
    """The statistics know of a hundred open rows; there are fifty times as many."""
    await outbox.append(pool, [new_row(outbox.level, HISTORY + 100 + n) for n in range(1, 5001)])
    async with open_pool(database.url, "test", 1, CLAIM_PLANNER_SETTINGS) as claiming:
        scope = SCOPES[outbox.level]
        nodes = await plan(claiming, outbox.sql["claim"], scope, 50, uuid4(), LEASE, START.due, START.id)
    on_the_table = [node for node in nodes if node.get("Relation Name") == outbox.level and "Scan" in node["Node Type"]]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on_the_table) <= 300


async def test_a_claim_reads_no_more_of_an_aggregate_than_it_can_lease(database: Database, pool: Pool) -> None:
    """Thousands of one version, as from somebody who reads all of their notifications."""
    outbox = Outbox(Level.EVENT)
    await outbox.append(pool, [new_row(Level.EVENT, 1) for _ in range(5000)])
    await pool.execute("VACUUM ANALYZE event_outbox")
    async with open_pool(database.url, "test", 1, CLAIM_PLANNER_SETTINGS) as claiming:
        scope = SCOPES[Level.EVENT]
        nodes = await plan(claiming, outbox.sql["claim"], scope, 50, uuid4(), LEASE, START.due, START.id)
    on_the_table = [
        node for node in nodes if node.get("Relation Name") == "event_outbox" and "Scan" in node["Node Type"]
    ]
    assert {node["Index Name"] for node in nodes if "Index Name" in node} <= CLAIM_INDEXES[Level.EVENT]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in on_the_table) <= 300


async def test_the_sweep_position_is_an_index_condition(outbox: Outbox, pool: Pool) -> None:
    scope = SCOPES[outbox.level]
    nodes = await plan(pool, outbox.sql["claim"], scope, 50, uuid4(), LEASE, START.due, START.id)
    conditions = [node.get("Index Cond", "") for node in nodes if node.get("Index Name", "").endswith("_claim")]
    assert any("ROW(" in condition for condition in conditions), conditions


async def test_a_purge_stays_on_its_index(outbox: Outbox, pool: Pool) -> None:
    nodes = await plan(pool, outbox.sql["purge"], timedelta(days=7), 1000)
    assert PURGE_INDEXES[outbox.level] in {node.get("Index Name") for node in nodes}
    assert "Seq Scan" not in {node["Node Type"] for node in nodes}
