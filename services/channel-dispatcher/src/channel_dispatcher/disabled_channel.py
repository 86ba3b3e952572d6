"""Finishes the rows of a disabled channel as SKIPPED, with the reason, so that they do not wait for ever."""

from channel_dispatcher import store
from channel_dispatcher.metrics import OUTCOMES
from tablebell.people import Channel
from tablebell.postgres import Pool

BATCH_SIZE = 1000


class DisabledChannelSkipper:
    def __init__(self, channel: Channel, pool: Pool) -> None:
        self.channel = channel
        self._pool = pool

    async def run_once(self) -> bool:
        reason = f"channel {self.channel} is not configured"
        skipped = await store.skip_channel(self._pool, self.channel, reason=reason, limit=BATCH_SIZE)
        OUTCOMES.labels(self.channel, "skipped").inc(skipped)
        return skipped == BATCH_SIZE
