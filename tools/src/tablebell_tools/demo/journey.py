"""The journey of one event, read from the database as it happens: what came to be, and when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import asyncpg

JOURNEY = """
SELECT 'L0' AS level, o.event_type AS who, 'committed with its reservation' AS what, o.created_at AS at
  FROM event_outbox AS o
 WHERE o.aggregate_id = $1 AND o.event_type = $2
UNION ALL
SELECT 'L0', o.event_type, 'published to event-stream', o.published_at
  FROM event_outbox AS o
 WHERE o.aggregate_id = $1 AND o.event_type = $2 AND o.published_at IS NOT NULL
UNION ALL
SELECT 'L1', lower(en.audience), string_agg(p.name, ', ' ORDER BY p.user_id), max(n.created_at)
  FROM event_notification AS en
  JOIN notification AS n ON n.event_notification_id = en.id
  JOIN person AS p ON p.user_type = n.user_type AND p.user_id = n.user_id
 WHERE en.reservation_id = $1 AND en.event_type = $2
 GROUP BY en.audience
"""

SENDS = """
SELECT n.user_type, n.user_id, p.name, s.channel_type, s.is_sent, s.sent_at, s.attempt_count, s.last_error, s.created_at
  FROM event_notification AS en
  JOIN notification AS n ON n.event_notification_id = en.id
  JOIN person AS p ON p.user_type = n.user_type AND p.user_id = n.user_id
  JOIN notification_channel_send AS s ON s.notification_id = n.id
 WHERE en.reservation_id = $1 AND en.event_type = $2
 ORDER BY n.user_type DESC, n.user_id, s.channel_type
"""


@dataclass(frozen=True)
class Moment:
    level: str
    who: str
    what: str
    at: datetime


@dataclass(frozen=True)
class Send:
    """One row of L2, as far as it has come."""

    user_type: str
    user_id: int
    name: str
    channel_type: str
    is_sent: bool | None
    sent_at: datetime | None
    attempt_count: int
    last_error: str | None
    created_at: datetime


@dataclass
class Journey:
    connection: "asyncpg.Connection[asyncpg.Record]"
    reservation_id: int
    event_type: str
    people: Mapping[str, int]
    """How many of each audience are to be told."""
    sends: Sequence[Send] = ()
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    async def look(self) -> list[Moment]:
        """What is new since the last look, in the order in which it happened."""
        rows = await self.connection.fetch(JOURNEY, self.reservation_id, self.event_type)
        moments = [Moment(**row) for row in rows]
        self.sends = [Send(**row) for row in await self.connection.fetch(SENDS, self.reservation_id, self.event_type)]
        fresh = [m for m in moments if (m.level, m.who, m.what) not in self._told and self._is_whole(m)]
        self._told |= {(m.level, m.who, m.what) for m in fresh}
        return sorted(fresh, key=lambda moment: moment.at)

    def is_over(self, sends: int) -> bool:
        return len(self.sends) >= sends and all(send.is_sent is not None for send in self.sends)

    def _is_whole(self, moment: Moment) -> bool:
        return moment.level != "L1" or moment.what.count(", ") + 1 >= self.people.get(moment.who, 1)
