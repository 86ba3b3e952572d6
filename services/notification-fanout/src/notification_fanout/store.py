"""One function per block of `sql/queries.sql`. Each takes a connection and never commits."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from notification_fanout.recipient_limits import LimitedRecipient
from tablebell.audience import SCHEDULED
from tablebell.people import Audience
from tablebell.postgres import Connection
from tablebell.sqlfile import load_queries

SQL = load_queries("notification_fanout", "sql", "queries.sql")

Rows = list[asyncpg.Record]


async def append_processed_events(
    connection: Connection,
    event_ids: Sequence[UUID],
    restaurant_ids: Sequence[int | None],
    customer_ids: Sequence[int | None],
    listener: str,
) -> Rows:
    return await connection.fetch(SQL["append_processed_events"], event_ids, restaurant_ids, customer_ids, listener)


async def append_notifications(
    connection: Connection, events: Sequence[Mapping[str, Any]], audience: Audience
) -> tuple[int, int]:
    """Return the number of notifications created, and of events that arrived after a later version."""
    row = await connection.fetchrow(
        SQL["append_notifications"], events, audience, audience.user_type, sorted(SCHEDULED)
    )
    return (row["created"], row["late"]) if row else (0, 0)


async def lock_earlier(
    connection: Connection,
    reservation_ids: Sequence[int],
    versions: Sequence[int],
    audience: Audience,
    event_types: Sequence[str] | None,
) -> Rows:
    return await connection.fetch(SQL["lock_earlier"], reservation_ids, versions, audience, event_types)


async def find_frame_recipients(connection: Connection, event_notification_ids: Sequence[int]) -> Rows:
    return await connection.fetch(SQL["find_frame_recipients"], event_notification_ids)


async def find_staff(connection: Connection, restaurant_ids: Sequence[int]) -> Rows:
    return await connection.fetch(SQL["find_staff"], restaurant_ids)


async def lock_events(connection: Connection, notification_ids: Sequence[int], user_types: Sequence[str]) -> Rows:
    return await connection.fetch(SQL["lock_events"], notification_ids, user_types)


async def find_resolutions(connection: Connection, event_notification_ids: Sequence[int]) -> Rows:
    return await connection.fetch(SQL["find_resolutions"], event_notification_ids)


async def find_restaurants(connection: Connection, restaurant_ids: Sequence[int]) -> Rows:
    return await connection.fetch(SQL["find_restaurants"], restaurant_ids)


async def find_recipients(connection: Connection, notification_ids: Sequence[int], user_types: Sequence[str]) -> Rows:
    return await connection.fetch(SQL["find_recipients"], notification_ids, user_types)


async def lock_recipients(connection: Connection, recipients: Iterable[LimitedRecipient]) -> None:
    keys = [f"{each.channel} {each.address}" for each in recipients]
    await connection.execute(SQL["lock_recipients"], keys)


async def find_due_times(connection: Connection, recipients: Mapping[LimitedRecipient, int]) -> Rows:
    """One row per recipient, in their order. `recipients`: with their numbers of new messages."""
    return await connection.fetch(
        SQL["find_due_times"],
        [each.channel for each in recipients],
        [each.address for each in recipients],
        [each.limit for each in recipients],
        list(recipients.values()),
    )


async def append_channel_sends(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Rows:
    """Return channel and outcome of each new row. Existing rows are not returned."""
    return await connection.fetch(SQL["append_channel_sends"], rows)


async def append_live_frame(connection: Connection, message: bytes) -> None:
    await connection.execute(SQL["append_live_frame"], message)


async def lock_live_frames(connection: Connection) -> bool:
    return bool(await connection.fetchval(SQL["lock_live_frames"]))


async def list_live_frames(connection: Connection, limit: int) -> Rows:
    return await connection.fetch(SQL["list_live_frames"], limit)


async def delete_live_frames(connection: Connection, ids: Sequence[int]) -> None:
    await connection.execute(SQL["delete_live_frames"], ids)


async def request_catch_up(connection: Connection, listener: str) -> None:
    await connection.execute(SQL["request_catch_up"], listener)


async def find_catch_up(connection: Connection, listener: str) -> datetime | None:
    requested_at: datetime | None = await connection.fetchval(SQL["find_catch_up"], listener)
    return requested_at


async def finish_catch_up(connection: Connection, listener: str, requested_at: datetime) -> None:
    await connection.execute(SQL["finish_catch_up"], listener, requested_at)


async def list_unprocessed_events(
    connection: Connection, listener: str, lookback: timedelta, after_id: int, limit: int
) -> Rows:
    return await connection.fetch(SQL["list_unprocessed_events"], listener, lookback, after_id, limit)


async def purge_processed_events(connection: Connection, retention: timedelta, limit: int) -> int:
    status = await connection.execute(SQL["purge_processed_events"], retention, limit)
    return int(status.rpartition(" ")[2])


async def purge_event_notifications(connection: Connection, retention: timedelta, limit: int) -> int:
    status = await connection.execute(SQL["purge_event_notifications"], retention, limit)
    return int(status.rpartition(" ")[2])
