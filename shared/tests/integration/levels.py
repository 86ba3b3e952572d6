"""What differs between the levels, for tests that hold on all of them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tablebell.outbox import Level

ALL_PARTITIONS = list(range(16))
LEASE = timedelta(seconds=30)

SCOPES: Mapping[Level, Any] = {
    Level.EVENT: ALL_PARTITIONS,
    Level.NOTIFICATION: ALL_PARTITIONS,
    Level.CHANNEL_SEND: "EMAIL",
}
DUE_COLUMN = {Level.EVENT: "available_at", Level.NOTIFICATION: "available_at", Level.CHANNEL_SEND: "next_attempt_at"}
ATTEMPTS_COLUMN = {Level.EVENT: "retry_count", Level.NOTIFICATION: "retry_count", Level.CHANNEL_SEND: "attempt_count"}
DONE_COLUMN = {Level.EVENT: "published_at", Level.NOTIFICATION: "published_at", Level.CHANNEL_SEND: "updated_at"}


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
