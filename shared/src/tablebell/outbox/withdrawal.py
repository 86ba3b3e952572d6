"""Withdraws channel sends (L2) that are obsolete, each with its reason.

The API calls it when a decision resolves a shared notification or a person is deactivated, and the fan-out when a later
event resolves or supersedes an earlier one. The caller locks the event_notification rows first, or the expansion as a
whole: a concurrent expansion of the same notification has either written its rows before, or sees the change and writes
them as withdrawn.
"""

from collections.abc import Sequence

from tablebell.people import UserType
from tablebell.postgres import Connection
from tablebell.sqlfile import load_queries

SQL = load_queries("tablebell.outbox", "sql", "withdrawal.sql")


async def withdraw_channel_sends(
    connection: Connection,
    event_notification_ids: Sequence[int],
    reasons: Sequence[str],
    user_type: UserType,
    user_id: int | None = None,
) -> None:
    """Withdraw the sends to everyone of the user type, or to one person."""
    await connection.execute(SQL["withdraw_channel_sends"], event_notification_ids, reasons, user_type, user_id)
