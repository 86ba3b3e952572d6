"""The steps of one event through the levels, read from the database while they happen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import asyncpg

STEPS = """
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
class Step:
    level: str
    who: str
    what: str
    at: datetime


@dataclass(frozen=True)
class Send:
    """One row of L2 in its current state."""

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
class EventSteps:
    connection: "asyncpg.Connection[asyncpg.Record]"
    reservation_id: int
    event_type: str
    people: Mapping[str, int]
    """The number of recipients in each audience."""
    sends: Sequence[Send] = ()
    _seen: set[tuple[str, str, str]] = field(default_factory=set)

    async def fetch_new(self) -> list[Step]:
        """The steps since the last call, in chronological order."""
        rows = await self.connection.fetch(STEPS, self.reservation_id, self.event_type)
        steps = [Step(**row) for row in rows]
        self.sends = [Send(**row) for row in await self.connection.fetch(SENDS, self.reservation_id, self.event_type)]
        new = [s for s in steps if (s.level, s.who, s.what) not in self._seen and self._includes_everyone(s)]
        self._seen |= {(s.level, s.who, s.what) for s in new}
        return sorted(new, key=lambda step: step.at)

    def is_complete(self, sends: int) -> bool:
        return len(self.sends) >= sends and all(send.is_sent is not None for send in self.sends)

    def _includes_everyone(self, step: Step) -> bool:
        return step.level != "L1" or step.what.count(", ") + 1 >= self.people.get(step.who, 1)
