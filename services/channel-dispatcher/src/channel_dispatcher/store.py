"""The dispatcher's queries: one function per block of sql/queries.sql. Takes a connection and never commits."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from channel_dispatcher.attempt_record import AttemptRecord
from channel_dispatcher.delivery import Delivery
from tablebell.postgres import Connection, Executor
from tablebell.sqlfile import load_queries

SQL = load_queries("channel_dispatcher", "sql", "queries.sql")

# A claim visits at most this many restaurants; the next claim continues the round.
MAX_VISITS = 300


@dataclass(frozen=True, slots=True)
class Claim:
    deliveries: Sequence[Delivery]
    finished: Counter[str]
    """The number of rows finished instead of claimed, by outcome."""
    last_restaurant: int
    """Where the round stopped."""
    more: bool
    """There may be more rows to claim now."""


@dataclass(frozen=True, slots=True)
class Recorded:
    result: str
    """The result as recorded, which may differ from that of the attempt: WITHDRAWN, EXPIRED."""
    unblocks: bool
    """A later row of the same person, reservation and channel waited for this one."""


async def claim_fair(
    connection: Executor,
    channel: str,
    *,
    limit: int,
    lease: timedelta,
    after: int,
    max_attempts: int,
    take_over: bool = True,
) -> Claim:
    """`take_over`: also claim rows with an expired lease."""
    token = uuid4()
    summary, *rows = await connection.fetch(
        SQL["claim_fair"], channel, limit, token, lease, after, max_attempts, MAX_VISITS, take_over
    )
    deliveries = [
        Delivery(
            id=row["id"],
            token=token,
            attempt_id=row["attempt_id"],
            attempt=row["attempt"],
            user_type=row["user_type"],
            user_id=row["user_id"],
            recipient=row["recipient"] or "",
            message=row["message"],
            headers=row["headers"] if isinstance(row["headers"], dict) else {},
            created_at=row["created_at"],
        )
        for row in rows
        if row["final_outcome"] is None
    ]
    finished = Counter(row["final_outcome"] for row in rows if row["final_outcome"] is not None)
    return Claim(deliveries, finished, summary["last_restaurant"], summary["more"])


async def try_claim(connection: Connection, row_id: int) -> None:
    await connection.execute(SQL["try_claim"], row_id)


async def lock_sms(connection: Connection) -> None:
    await connection.execute(SQL["lock_sms"])


async def count_sms(connection: Executor) -> int:
    return int(await connection.fetchval(SQL["count_sms"]))


async def postpone_sms(connection: Connection, pause: timedelta, *, reason: str, limit: int) -> Counter[str]:
    """Returns the number of rows by outcome: POSTPONED or EXPIRED."""
    return Counter(row["outcome"] for row in await connection.fetch(SQL["postpone_sms"], pause, reason, limit))


async def extend_if_leased(connection: Executor, deliveries: Sequence[Delivery], lease: timedelta) -> set[int]:
    """Returns the ids of the rows that this process still leases."""
    ids, tokens = [each.id for each in deliveries], [each.token for each in deliveries]
    return {row["id"] for row in await connection.fetch(SQL["extend_if_leased"], ids, tokens, lease)}


async def record_if_leased(
    connection: Executor, records: Sequence[AttemptRecord], withheld: Collection[int] = ()
) -> dict[int, Recorded]:
    """Returns the results by id; rows with a lost lease are missing. Marks of `withheld` (row ids) have no effect."""
    rows = await connection.fetch(
        SQL["record_if_leased"],
        [each.delivery.id for each in records],
        [each.delivery.token for each in records],
        [each.delivery.attempt_id for each in records],
        [each.result for each in records],
        [each.error for each in records],
        [each.provider_message_id for each in records],
        [each.pause for each in records],
        [each.counts for each in records],
        [each.address_is_dead for each in records],
        [each.delivery.id not in withheld for each in records],
    )
    return {row["id"]: Recorded(row["result"], row["unblocks"]) for row in rows}


async def count_addresses(connection: Executor, channel: str) -> int:
    return int(await connection.fetchval(SQL["count_addresses"], channel))


async def count_recent_marks(connection: Executor, channel: str, within: timedelta) -> int:
    return int(await connection.fetchval(SQL["count_recent_marks"], channel, within))


async def purge_marks(connection: Executor, older_than: timedelta, limit: int) -> int:
    status = await connection.execute(SQL["purge_marks"], older_than, limit)
    return int(status.rpartition(" ")[2])


async def skip_channel(connection: Executor, channel: str, *, reason: str, limit: int) -> int:
    return len(await connection.fetch(SQL["skip_channel"], channel, reason, limit))


async def count_withdrawn(connection: Executor) -> dict[str, int]:
    return {row["channel_type"]: row["rows"] for row in await connection.fetch(SQL["count_withdrawn"])}
