"""Query plans, for tests that keep queries on their indexes."""

import json
from typing import Any

from tablebell.postgres import Pool


async def plan(pool: Pool, query: str, *arguments: Any) -> list[dict[str, Any]]:
    """The nodes of the executed plan. The query's changes are rolled back."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        text = await connection.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) " + query, *arguments)
        await transaction.rollback()
    return plan_nodes(text)


def plan_nodes(text: str) -> list[dict[str, Any]]:
    """The nodes of a plan, from the JSON that EXPLAIN returns."""
    nodes: list[dict[str, Any]] = []
    pending = [json.loads(text)[0]["Plan"]]
    while pending:
        node = pending.pop()
        pending += node.get("Plans", [])
        nodes.append(node)
    return nodes
