"""The dispatcher's queries: one function per block of sql/queries.sql. Takes a connection and never commits."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from channel_dispatcher.delivery import Delivery
from channel_dispatcher.settlement import Settlement
from tablebell.postgres import Connection, Pool
from tablebell.sqlfile import load_queries

SQL = load_queries("channel_dispatcher", "sql", "queries.sql")

# A round over more restaurants than this goes on with the next claim.
MOST_VISITS = 300


@dataclass(frozen=True, slots=True)
class Claim:
    deliveries: Sequence[Delivery]
    settled: Counter[str]
    """What was finished instead of claimed, by outcome."""
    reached: int
    """The restaurant where the round stopped."""
    more: bool
    """There may be more to claim at once."""


@dataclass(frozen=True, slots=True)
class Recorded:
    result: str
    """What the row's result was in the end."""
    unblocks: bool
    """A later row of the same person, reservation and channel can be claimed now."""


@dataclass(frozen=True, slots=True)
class Measure:
    channel: str
    oldest_seconds: float
    overdue_seconds: float
    withdrawn: int


async def claim_fair(
    connection: Connection | Pool,
    channel: str,
    *,
    limit: int,
    lease: timedelta,
    after: int,
    max_attempts: int,
    takes_over: bool = True,
) -> Claim:
    """`takes_over`: also claim rows whose holder has let its lease end."""
    token = uuid4()
    head, *rows = await connection.fetch(
        SQL["claim_fair"], channel, limit, token, lease, after, max_attempts, MOST_VISITS, takes_over
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
        if row["settled"] is None
    ]
    settled = Counter(row["settled"] for row in rows if row["settled"] is not None)
    return Claim(deliveries, settled, head["reached"], head["more"])


async def try_claim(connection: Connection, row_id: int) -> None:
    await connection.execute(SQL["try_claim"], row_id)


async def extend_if_leased(connection: Connection | Pool, deliveries: Sequence[Delivery], lease: timedelta) -> set[int]:
    """The ids of those that are still ours."""
    ids, tokens = [each.id for each in deliveries], [each.token for each in deliveries]
    return {row["id"] for row in await connection.fetch(SQL["extend_if_leased"], ids, tokens, lease)}


async def record_if_leased(
    connection: Connection | Pool, settlements: Sequence[Settlement], withheld: Collection[int] = ()
) -> dict[int, Recorded]:
    """By id; rows that were no longer ours are missing. The marks of `withheld` (ids) silence nobody."""
    rows = await connection.fetch(
        SQL["record_if_leased"],
        [each.delivery.id for each in settlements],
        [each.delivery.token for each in settlements],
        [each.delivery.attempt_id for each in settlements],
        [each.result for each in settlements],
        [each.error for each in settlements],
        [each.provider_message_id for each in settlements],
        [each.pause for each in settlements],
        [each.counts for each in settlements],
        [each.address_is_dead for each in settlements],
        [each.delivery.id not in withheld for each in settlements],
    )
    return {row["id"]: Recorded(row["result"], row["unblocks"]) for row in rows}


async def count_addresses(connection: Connection | Pool, channel: str) -> int:
    return int(await connection.fetchval(SQL["count_addresses"], channel))


async def count_recent_marks(connection: Connection | Pool, channel: str, within: timedelta) -> int:
    return int(await connection.fetchval(SQL["count_recent_marks"], channel, within))


async def purge_marks(connection: Connection | Pool, older_than: timedelta) -> int:
    status = await connection.execute(SQL["purge_marks"], older_than)
    return int(status.rpartition(" ")[2])


async def skip_channel(connection: Connection | Pool, channel: str, *, reason: str, limit: int) -> int:
    return len(await connection.fetch(SQL["skip_channel"], channel, reason, limit))


async def measure_channels(connection: Connection | Pool, channels: Sequence[str]) -> list[Measure]:
    rows = await connection.fetch(SQL["measure_channels"], list(channels))
    return [
        Measure(row["channel_type"], row["oldest_seconds"] or 0.0, row["overdue_seconds"] or 0.0, row["withdrawn"])
        for row in rows
    ]
