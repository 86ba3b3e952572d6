"""What differs between the levels, for tests that hold on several of them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from tablebell.outbox import Level
from tablebell.postgres import Pool

ALL_PARTITIONS = list(range(16))
LEASE = timedelta(seconds=30)

SCOPES: Mapping[Level, Any] = {
    Level.EVENT: ALL_PARTITIONS,
    Level.NOTIFICATION: ALL_PARTITIONS,
    Level.CHANNEL_SEND: "EMAIL",
}
DUE_COLUMN = {Level.EVENT: "available_at", Level.NOTIFICATION: "available_at", Level.CHANNEL_SEND: "next_attempt_at"}
ATTEMPTS_COLUMN = {Level.EVENT: "retry_count", Level.NOTIFICATION: "retry_count", Level.CHANNEL_SEND: "attempt_count"}
DEAD_COLUMN = {Level.EVENT: "available_at", Level.NOTIFICATION: "available_at", Level.CHANNEL_SEND: "updated_at"}
DONE_COLUMN = {Level.EVENT: "published_at", Level.NOTIFICATION: "published_at", Level.CHANNEL_SEND: "updated_at"}

QUEUE_STATUSES = {
    "PUBLISHED": "status = 'PUBLISHED', published_at = now()",
    "DEAD": "status = 'DEAD', retry_count = 5, last_error = 'boom'",
}
STATUSES: Mapping[Level, Mapping[str, str]] = {
    Level.EVENT: QUEUE_STATUSES,
    Level.NOTIFICATION: QUEUE_STATUSES,
    Level.CHANNEL_SEND: {
        "PUBLISHED": "is_sent = true, outcome = 'SENT', sent_at = now(), updated_at = now()",
        "DEAD": "is_sent = false, outcome = 'EXHAUSTED', attempt_count = 5, last_error = 'boom', updated_at = now()",
    },
}


async def set_status(pool: Pool, level: Level, ids: Sequence[int], status: str) -> None:
    """Write the columns that a row has in this status."""
    await pool.execute(f"UPDATE {level} SET {STATUSES[level][status]} WHERE id = ANY ($1)", ids)


async def set_lease(pool: Pool, level: Level, ids: Sequence[int], token: UUID, lease: timedelta = LEASE) -> None:
    """Lease open rows as a claim does."""
    status = "" if level is Level.CHANNEL_SEND else "status = 'PROCESSING',"
    await pool.execute(
        f"UPDATE {level} SET {status} lease_token = $2, lease_until = now() + $3 WHERE id = ANY ($1)", ids, token, lease
    )


def new_row(level: Level, number: int, **columns: Any) -> dict[str, Any]:
    """A valid row, each of an aggregate or a notification of its own."""
    match level:
        case Level.EVENT:
            row = {
                "event_type": "RESERVATION_REQUESTED",
                "aggregate_id": number,
                "aggregate_version": 1,
                "payload": {"partySize": 4},
            }
        case Level.NOTIFICATION:
            row = {"notification_id": number, "notification_type": "CUSTOMER", "partition": number % 16}
        case Level.CHANNEL_SEND:
            row = {
                "notification_id": number,
                "channel_type": "EMAIL",
                "user_type": "CUSTOMER",
                "user_id": 5,
                "restaurant_id": 10,
                "recipient": "anna@mail.example",
            }
    return row | columns
