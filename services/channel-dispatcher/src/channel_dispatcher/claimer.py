"""Claims rows of one channel, round-robin over the restaurants.

A claimer takes over expired leases only after a period of uninterrupted contact with the database. During an outage of
the database nobody can renew a lease, so expired leases do not mean that their holders died: the holders renew and
record within a second of the database's return.
"""

import math
from collections import Counter
from datetime import timedelta
from functools import partial

import structlog

from channel_dispatcher import store
from channel_dispatcher.claim_isolation import bury_refused_rows
from channel_dispatcher.sms_budget import SmsBudget
from channel_dispatcher.wakeup_timer import WakeupTimer
from tablebell.outage import OUTAGES
from tablebell.people import Channel
from tablebell.postgres import Executor, Pool

log = structlog.get_logger(__name__)

# Fractions of the lease: how long contact must last before expired leases are taken over, and the gap between two
# claims after which an outage in between cannot be ruled out.
TAKEOVER_SHARE = 1 / 6
CONTACT_SHARE = 1 / 2


class Claimer:
    def __init__(
        self,
        channel: Channel,
        pool: Pool,
        *,
        lease: timedelta,
        max_attempts: int,
        timer: WakeupTimer,
        budget: SmsBudget | None = None,
    ) -> None:
        self._channel = channel
        self._pool = pool
        self._budget = budget
        self._lease = lease
        self._max_attempts = max_attempts
        self._timer = timer
        self._last_restaurant = 0
        # Both on the monotonic clock.
        self._last_contact = -math.inf
        self._contact_since = 0.0

    async def claim(self, limit: int, now: float) -> store.Claim:
        """Rows that the database refuses to claim are buried; then the claim is empty and `more` is true."""
        claim_fair = partial(self._claim_fair, take_over=self._may_take_over(now))
        try:
            if self._budget is None:
                claim = await claim_fair(self._pool, limit)
            else:
                claim = await self._budget.claim(limit, claim_fair)
        except OUTAGES:
            self._last_contact = -math.inf
            raise
        except Exception as error:
            log.exception("claim_failed", channel=self._channel)
            await bury_refused_rows(self._pool, self._channel, error)
            return store.Claim([], Counter(), self._last_restaurant, more=True)
        self._last_contact = now
        self._last_restaurant = claim.last_restaurant
        return claim

    async def _claim_fair(self, connection: Executor, limit: int, *, take_over: bool) -> store.Claim:
        return await store.claim_fair(
            connection,
            self._channel,
            limit=limit,
            lease=self._lease,
            after=self._last_restaurant,
            max_attempts=self._max_attempts,
            take_over=take_over,
        )

    def _may_take_over(self, now: float) -> bool:
        lease = self._lease.total_seconds()
        if now - self._last_contact > lease * CONTACT_SHARE:
            self._contact_since = now
        remaining = self._contact_since + lease * TAKEOVER_SHARE - now
        if remaining > 0:
            self._timer.wake_in(remaining)
        return remaining <= 0
