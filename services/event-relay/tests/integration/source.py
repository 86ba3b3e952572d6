"""Commits and announces events as the API does."""

from typing import Any

import asyncpg

from tablebell.outbox import Level
from tablebell.postgres import Pool
from tablebell.testing import append_rows
from tablebell.wakeups import WakeupSender

OPEN_OR_DEAD = ("PENDING", "PROCESSING", "FAILED", "DEAD")


def event(aggregate: int, version: int, **columns: Any) -> dict[str, Any]:
    return {
        "event_type": "RESERVATION_REQUESTED",
        "aggregate_id": aggregate,
        "aggregate_version": version,
        "payload": {"reservationId": aggregate, "partySize": 4},
        **columns,
    }


class Source:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._wakeup_sender = WakeupSender(pool)

    async def commit(self, *events: dict[str, Any]) -> list[int]:
        ids = await append_rows(self._pool, Level.EVENT, events)
        self._wakeup_sender.announce(Level.EVENT)
        return ids

    async def row(self, row_id: int) -> asyncpg.Record:
        row = await self._pool.fetchrow("SELECT * FROM event_outbox WHERE id = $1", row_id)
        assert row is not None
        return row

    async def statuses(self) -> dict[str, int]:
        rows = await self._pool.fetch("SELECT status, count(*) AS rows FROM event_outbox GROUP BY status")
        return {row["status"]: row["rows"] for row in rows}

    async def all_are(self, status: str) -> bool:
        return set(await self.statuses()) == {status}

    async def make_retries_due(self) -> None:
        await self._pool.execute("UPDATE event_outbox SET available_at = now() WHERE status = 'FAILED'")
        self._wakeup_sender.announce(Level.EVENT)
