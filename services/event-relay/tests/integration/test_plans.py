"""The relay's own questions stay on the index of what is open, whatever the history holds."""

import json
from typing import Any

import pytest

from event_relay import store
from tablebell.outbox import START
from tablebell.postgres import Pool

HISTORY = """
INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, status, published_at, available_at)
SELECT 'RESERVATION_REQUESTED', number, 1, '{}', status, CASE WHEN status = 'PUBLISHED' THEN now() END,
       CASE WHEN status = 'PUBLISHED' THEN now() ELSE now() + (number - 20050) * interval '1 minute' END
  FROM generate_series(1, 20100) AS number,
       LATERAL (SELECT CASE WHEN number <= 20000 THEN 'PUBLISHED' ELSE 'PENDING' END AS status) AS s
"""
QUESTIONS: dict[str, list[Any]] = {
    "look_ahead": [list(range(16)), START.due, START.id],
    "measure_lag": [],
    "release_orphans": [[1, 2]],
}


@pytest.mark.parametrize("name", QUESTIONS)
async def test_a_question_reads_only_what_is_open(pool: Pool, name: str) -> None:
    await pool.execute(HISTORY)
    await pool.execute("VACUUM ANALYZE event_outbox")
    text = await pool.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) " + store.SQL[name], *QUESTIONS[name])
    pending, scans = [json.loads(text)[0]["Plan"]], []
    while pending:
        node: dict[str, Any] = pending.pop()
        pending += node.get("Plans", [])
        if "Scan" in node["Node Type"] and "Alias" in node:
            scans.append(node)
    assert scans
    assert {node.get("Index Name", "event_outbox_claim") for node in scans} == {"event_outbox_claim"}
    assert "Seq Scan" not in {node["Node Type"] for node in scans}
    assert sum(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in scans) <= 210
