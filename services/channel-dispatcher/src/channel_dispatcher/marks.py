"""Limits how many addresses of a channel are marked as undeliverable within a window.

If a large share of a channel's addresses fails within minutes, the cause is the provider or our settings, and marks
would stop messages to those people for weeks. Marks beyond the limit are written without effect (`silences = false`).
They still count towards the window, so that the limit holds while the cause lasts, and an operator can see them.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

import structlog

from channel_dispatcher import store
from channel_dispatcher.attempt_record import AttemptRecord
from tablebell.people import Channel
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

CACHE_SECONDS = 600.0


class MarkLimit:
    """Per `window`, at most `share` of a channel's addresses or `least` are marked, whichever is more."""

    def __init__(self, pool: Pool, *, share: float, window: timedelta, least: int) -> None:
        self._pool = pool
        self._share = share
        self._window = window
        self._least = least
        self._addresses: dict[Channel, tuple[float, int]] = {}

    async def withheld(self, batch: Sequence[tuple[Channel, AttemptRecord]]) -> set[int]:
        """The ids of the rows in this batch whose marks must have no effect."""
        dead: dict[Channel, list[int]] = defaultdict(list)
        for channel, record in batch:
            if record.address_is_dead:
                dead[channel].append(record.delivery.id)
        withheld: set[int] = set()
        for channel, ids in dead.items():
            limit = max(self._least, int(self._share * await self._count_addresses(channel)))
            recent = await store.count_recent_marks(self._pool, channel, self._window)
            beyond = ids[max(0, limit - recent) :]
            if beyond:
                log.critical("address_marks_withheld", channel=channel, rows=len(beyond), recent=recent, limit=limit)
            withheld.update(beyond)
        return withheld

    async def _count_addresses(self, channel: Channel) -> int:
        """Cached: the number changes slowly, and counting reads all people."""
        now = time.monotonic()
        counted_at, count = self._addresses.get(channel, (-CACHE_SECONDS, 0))
        if now - counted_at >= CACHE_SECONDS:
            count = await store.count_addresses(self._pool, channel)
            self._addresses[channel] = now, count
        return count
