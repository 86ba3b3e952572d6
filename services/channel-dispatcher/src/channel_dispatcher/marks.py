"""Limits how many addresses of a channel are marked as undeliverable within a window.

One dead mailbox is about its address. When a noticeable share of a channel's addresses dies within minutes, the cause
is a provider or our settings, and marks would silence people for weeks. Marks beyond the limit are written without
effect (`silences = false`): they count against the window, so that the limit holds as long as the cause lasts, and an
operator sees them.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

import structlog

from channel_dispatcher import store
from channel_dispatcher.settlement import Settlement
from tablebell.people import Channel
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)

COUNT_AGAIN_SECONDS = 600.0


class MarkLimit:
    """At most `share` of a channel's addresses may be marked within `window`, but `least` in any case."""

    def __init__(self, pool: Pool, *, share: float, window: timedelta, least: int) -> None:
        self._pool = pool
        self._share = share
        self._window = window
        self._least = least
        self._addresses: dict[Channel, tuple[float, int]] = {}

    async def withheld(self, batch: Sequence[tuple[Channel, Settlement]]) -> set[int]:
        """The ids of the rows in this batch whose marks must not silence anybody."""
        dead: dict[Channel, list[int]] = defaultdict(list)
        for channel, settlement in batch:
            if settlement.address_is_dead:
                dead[channel].append(settlement.delivery.id)
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
        """Counted now and then: the number changes slowly, and counting reads all people."""
        now = time.monotonic()
        counted_at, count = self._addresses.get(channel, (-COUNT_AGAIN_SECONDS, 0))
        if now - counted_at >= COUNT_AGAIN_SECONDS:
            count = await store.count_addresses(self._pool, channel)
            self._addresses[channel] = now, count
        return count
