"""The relay's query uses the index of open events, regardless of the history."""

from event_relay import store
from tablebell.outbox import START
from tablebell.postgres import Pool
from tablebell.testing.plans import plan_nodes

HISTORY = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, status, published_at)
SELECT 'RESERVATION_REQUESTED', number, 1, '{}', 'PUBLISHED', now() FROM generate_series(1, 20000) AS number
"""
PLANNED = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, available_at)
SELECT 'RESERVATION_REMINDER_DUE', number, 2, '{}', now() + number * interval '1 minute'
  FROM generate_series(1, 5000) AS number
"""


async def test_an_idle_relay_reads_neither_the_history_nor_the_planned_events(pool: Pool) -> None:
    await pool.execute(HISTORY)
    await pool.execute(PLANNED)
    await pool.execute("VACUUM ANALYZE event_outbox")
    text = await pool.fetchval(
        "EXPLAIN (ANALYZE, FORMAT JSON) " + store.SQL["find_next_due"], list(range(16)), START.due, START.id
    )
    scans = [node for node in plan_nodes(text) if "Scan" in node["Node Type"] and "Alias" in node]
    assert {node.get("Index Name") for node in scans} == {"event_outbox_claim"}
    assert sum(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in scans) <= 20
