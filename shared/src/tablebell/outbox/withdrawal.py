"""Withdraws channel sends (L2) that need not be sent any more, each with its reason.

The API calls this when a decision settles a question, and the fan-out when a later event settles or supersedes what was
told before. The lock of the event_notification rows comes first: an expansion of the same notification has written its
rows by then, or it sees the decision or the later event and writes them as withdrawn.
"""

from collections.abc import Sequence

from tablebell.people import UserType
from tablebell.postgres import Connection
from tablebell.sqlfile import load_queries

SQL = load_queries("tablebell.outbox", "sql", "withdrawal.sql")


async def withdraw_channel_sends(
    connection: Connection, event_notification_ids: Sequence[int], reasons: Sequence[str], user_type: UserType
) -> None:
    await connection.execute(SQL["withdraw_channel_sends"], event_notification_ids, reasons, user_type)
