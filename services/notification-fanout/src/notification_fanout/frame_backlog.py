"""Publishes stored live frames in order and deletes them.

One replica publishes at a time. Frames are deleted after the confirm, so a crash in between repeats them.
"""

import structlog

from notification_fanout import store
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.metrics import FRAMES
from tablebell.frames import decode_frames
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

BEHIND_POLL_SECONDS = 0.2
POLL_SECONDS = 5.0
"""Finds frames that another replica stored before it was killed."""


class FrameBacklog:
    def __init__(self, pool: Pool, frame_publisher: FramePublisher, limit: int = 100) -> None:
        self._pool = pool
        self._frame_publisher = frame_publisher
        self._limit = limit

    def poll_seconds(self) -> float:
        return BEHIND_POLL_SECONDS if self._frame_publisher.is_behind else POLL_SECONDS

    async def run_once(self) -> bool:
        """Publish up to `limit` messages; return True if there may be more."""
        if not self._frame_publisher.is_available:
            return False
        async with self._pool.acquire() as connection, connection.transaction():
            if not await store.lock_live_frames(connection):
                return False
            rows = await store.list_live_frames(connection, self._limit)
            if not rows:
                self._frame_publisher.note_empty()
                return False
            confirmed = rows[: await self._frame_publisher.publish([row["message"] for row in rows])]
            await store.delete_live_frames(connection, [row["id"] for row in confirmed])
        FRAMES.inc(sum(len(decode_frames(row["message"])) for row in confirmed))
        log.info("stored_frames_published", messages=len(confirmed))
        return len(confirmed) == self._limit
