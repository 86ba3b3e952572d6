"""Dead rows that must not be requeued, because their message is settled, superseded or expired.

L1 needs no check: the expander compares with the current state and writes such sends as withdrawn or skipped.
"""

from collections.abc import Sequence

from reservation_api import store
from tablebell.events import CamelModel
from tablebell.outbox import Level
from tablebell.postgres import Connection


class Outdated(CamelModel):
    id: int
    reason: str


async def find_outdated(connection: Connection, level: Level, ids: Sequence[int]) -> list[store.Row]:
    """The outdated rows among these, with reasons. Locks what would make others outdated until the commit."""
    match level:
        case Level.EVENT:
            await store.lock_reservations_of_events(connection, ids)
            return [*await store.find_outdated_events(connection, ids)]
        case Level.NOTIFICATION:
            return []
        case Level.CHANNEL_SEND:
            await store.lock_event_notifications_of_sends(connection, ids)
            return [*await store.find_outdated_sends(connection, ids)]


async def close_outdated(connection: Connection, level: Level, rows: Sequence[store.Row]) -> None:
    """Set the final state that the rows would have got while open."""
    ids, reasons = [row["id"] for row in rows], [row["reason"] for row in rows]
    match level:
        case Level.EVENT:
            await store.close_dead_events(connection, ids, reasons)
        case Level.NOTIFICATION:
            pass
        case Level.CHANNEL_SEND:
            await store.close_dead_sends(connection, ids, [row["outcome"] for row in rows], reasons)
