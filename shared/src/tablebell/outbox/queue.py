"""The outbox as a queue, on L0 and L1: a worker claims a batch of due rows under a lease and records each outcome.

A lease is a token and an end, by the database's clock. An outcome is written only with the row's current token, so a
worker whose lease has passed to another worker writes nothing. An expired lease makes the row due for the next claim.

L2 is not a queue of this kind: channel-dispatcher claims fairly across restaurants and records provider outcomes, with
SQL of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID, uuid4

import asyncpg

from tablebell.outbox.table import START, Failure, Level, OutboxTable, Position, columns_of, ids_of
from tablebell.postgres import Executor
from tablebell.sqlfile import load_queries

CLAIM_PLANNER_SETTINGS = {"enable_sort": "off", "enable_seqscan": "off", "enable_bitmapscan": "off"}
"""Planner settings for a pool that claims. Few rows are open most of the time, so PostgreSQL's statistics make it read
and sort all of them. With a backlog, a claim has to follow an index and stop at its limit."""


@dataclass(frozen=True, slots=True)
class Batch:
    token: UUID
    rows: Sequence[asyncpg.Record]
    reached: Position
    more: bool
    """The claim reached its limit: there may be more due rows after `reached`."""
    held: Sequence[asyncpg.Record] = ()
    """Due, but not leased: an earlier row has to be done first."""


class OutboxQueue(OutboxTable):
    def __init__(self, level: Literal[Level.EVENT, Level.NOTIFICATION]) -> None:
        super().__init__(level)
        self.sql = {**self.sql, **load_queries("tablebell.outbox", "sql", "queue", f"{level}.sql")}

    async def claim(
        self,
        connection: Executor,
        partitions: Sequence[int],
        *,
        limit: int,
        lease: timedelta,
        after: Position = START,
        token: UUID | None = None,
    ) -> Batch:
        """Lease up to `limit` due rows of these partitions.

        On L0, claiming with the token of earlier batches also returns successors of the events that it still leases.
        The worker then keeps the order between its batches.
        """
        token = token or uuid4()
        rows = await connection.fetch(self.sql["claim"], partitions, limit, token, lease, after.due, after.id)
        reached = max((Position(row["due"], row["id"]) for row in rows), default=after)
        leased = [row for row in rows if row["leased"]]
        held = [row for row in rows if not row["leased"]] if len(leased) < len(rows) else ()
        return Batch(token, leased, reached, more=len(rows) >= limit, held=held)

    async def complete_if_leased(self, connection: Executor, ids: Sequence[int], token: UUID) -> list[int]:
        return ids_of(await connection.fetch(self.sql["complete_if_leased"], ids, token))

    async def fail_if_leased(
        self, connection: Executor, failures: Sequence[Failure], token: UUID, max_attempts: int
    ) -> dict[int, str]:
        """Count an attempt and retry after the pause, or bury after the last attempt; returns the new status by id."""
        ids, errors, pauses = columns_of(failures)
        rows = await connection.fetch(self.sql["fail_if_leased"], ids, token, errors, pauses, max_attempts)
        return {row["id"]: row["status"] for row in rows}

    async def release_if_leased(self, connection: Executor, failures: Sequence[Failure], token: UUID) -> list[int]:
        """Return rows to the queue without counting an attempt, because the failure was an outage."""
        ids, errors, pauses = columns_of(failures)
        return ids_of(await connection.fetch(self.sql["release_if_leased"], ids, token, errors, pauses))
