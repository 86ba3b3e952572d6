"""Publishes the live frames that were stored while RabbitMQ took none, in their order, and deletes them.

One replica does it at a time. The frames are deleted after RabbitMQ has taken them: after a crash in between they come
again.
"""

import structlog

from notification_fanout import store
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.metrics import FRAMES
from tablebell.frames import decode_frames
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

AFTER_STORING_SECONDS = 0.2
POLL_SECONDS = 5.0
"""For what a replica stored before it was killed."""


class FrameBacklog:
    def __init__(self, pool: Pool, live: FramePublisher, limit: int = 100) -> None:
        self._pool = pool
        self._live = live
        self._limit = limit

    def patience(self) -> float:
        return AFTER_STORING_SECONDS if self._live.is_behind else POLL_SECONDS

    async def run_once(self) -> bool:
        """Publish some; True when there may be more."""
        if not self._live.is_available:
            return False
        async with self._pool.acquire() as connection, connection.transaction():
            if not await store.lock_live_frames(connection):
                return False
            rows = await store.list_live_frames(connection, self._limit)
            if not rows:
                self._live.note_empty()
                return False
            taken = rows[: await self._live.publish([row["message"] for row in rows])]
            await store.delete_live_frames(connection, [row["id"] for row in taken])
        FRAMES.inc(sum(len(decode_frames(row["message"])) for row in taken))
        log.info("stored_frames_published", messages=len(taken))
        return len(taken) == self._limit
