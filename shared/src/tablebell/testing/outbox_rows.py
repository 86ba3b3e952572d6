"""Inserts outbox rows for tests and benchmarks. The services write theirs in the transaction of the business change."""

from collections.abc import Mapping, Sequence
from typing import Any

from tablebell.outbox import Level
from tablebell.postgres import Executor

# $1 the rows, as a JSON array of objects
INSERT = {
    Level.EVENT: """
        INSERT INTO event_outbox (event_id, event_type, aggregate_type, aggregate_id, aggregate_version, schedule_key,
                                  payload, headers, available_at)
        SELECT coalesce(event_id, gen_random_uuid()), event_type, coalesce(aggregate_type, 'reservation'), aggregate_id,
               aggregate_version, schedule_key, payload, coalesce(headers, '{}'),
               coalesce(available_at, clock_timestamp())
          FROM jsonb_to_recordset($1) AS given (
                   event_id uuid, event_type text, aggregate_type text, aggregate_id bigint, aggregate_version integer,
                   schedule_key text, payload jsonb, headers jsonb, available_at timestamptz)
        RETURNING id""",
    Level.NOTIFICATION: """
        INSERT INTO notification_outbox (notification_id, notification_type, partition, available_at)
        SELECT notification_id, notification_type, coalesce(partition, 0), coalesce(available_at, clock_timestamp())
          FROM jsonb_to_recordset($1) AS given (
                   notification_id bigint, notification_type text, partition smallint, available_at timestamptz)
        RETURNING id""",
    Level.CHANNEL_SEND: """
        INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id,
                                               reservation_id, aggregate_version, recipient, message, headers,
                                               next_attempt_at, not_after)
        SELECT notification_id, channel_type, user_type, user_id, restaurant_id, reservation_id, aggregate_version,
               recipient, coalesce(message, '{}'), coalesce(headers, '{}'),
               coalesce(next_attempt_at, clock_timestamp()), not_after
          FROM jsonb_to_recordset($1) AS given (
                   notification_id bigint, channel_type text, user_type text, user_id bigint, restaurant_id bigint,
                   reservation_id bigint, aggregate_version integer, recipient text, message jsonb, headers jsonb,
                   next_attempt_at timestamptz, not_after timestamptz)
        RETURNING id""",
}


async def append_rows(connection: Executor, level: Level, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert rows, given as the level's columns by name; missing columns get their defaults. Returns the ids."""
    return [row["id"] for row in await connection.fetch(INSERT[level], list(rows))]
