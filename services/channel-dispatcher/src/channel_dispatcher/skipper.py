"""Finishes the rows of a channel that is switched off: skipped, with the reason, rather than waiting for ever."""

from channel_dispatcher import store
from channel_dispatcher.metrics import OUTCOMES
from tablebell.people import Channel
from tablebell.postgres import Pool

BITE = 1000


class Skipper:
    def __init__(self, channel: Channel, pool: Pool) -> None:
        self.channel = channel
        self._pool = pool

    async def run_once(self) -> bool:
        reason = f"channel {self.channel} is not configured"
        skipped = await store.skip_channel(self._pool, self.channel, reason=reason, limit=BITE)
        OUTCOMES.labels(self.channel, "skipped").inc(skipped)
        return skipped == BITE
