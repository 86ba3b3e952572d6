"""The health of one channel's provider, learned from the outcomes of its sends.

Updates the circuit breaker and the failure attribution together: the breaker opens only on failures that the
attribution does not blame on a row, and an open breaker clears the rows that failed during the outage.
"""

from collections.abc import Hashable
from typing import assert_never

import structlog

from channel_dispatcher.breaker import Breaker, State
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.failure_attribution import Cause, FailureAttribution
from channel_dispatcher.outcome import NotTried, ProviderDown, RetryLater, SendOutcome, Sent, Throttled, Undeliverable
from tablebell.people import Channel

log = structlog.get_logger(__name__)


class ProviderHealth:
    def __init__(
        self, channel: Channel, breaker: Breaker, attribution: FailureAttribution, *, shared_address: bool = False
    ) -> None:
        """`shared_address`: all messages go to one address, so the row id stands for the recipient."""
        self.breaker = breaker
        self.attribution = attribution
        self._channel = channel
        self._shared_address = shared_address

    def assess(self, delivery: Delivery, outcome: SendOutcome) -> SendOutcome:
        """Returns the outcome to record: a `ProviderDown` that the row itself caused becomes a `RetryLater`."""
        match outcome:
            case Sent() | RetryLater(answered=True) | Undeliverable(answered=True):
                self.attribution.record_answer(delivery.id, works_now=self.breaker.record_answer())
            case Throttled(reason, after):
                seconds = after.total_seconds()
                works_now = self.breaker.record_throttle(self._recipient(delivery), seconds)
                self.attribution.record_answer(delivery.id, works_now=works_now)
                log.warning("provider_throttles", channel=self._channel, error=reason, seconds=seconds)
            case ProviderDown():
                return self._assess_failure(delivery, outcome)
            case RetryLater() | Undeliverable() | NotTried():
                pass  # the provider was not called
            case _:
                assert_never(outcome)
        return outcome

    def _assess_failure(self, delivery: Delivery, outcome: ProviderDown) -> SendOutcome:
        cause = self.attribution.record_failure(delivery.id, certain=outcome.certain)
        if cause is Cause.PROVIDER and self.breaker.record_failure(self._recipient(delivery), certain=outcome.certain):
            write = log.critical if outcome.needs_operator else log.error
            event = "provider_refuses_us" if outcome.needs_operator else "provider_down"
            write(event, channel=self._channel, error=outcome.reason, probe_in=self.breaker.cool_down)
        if self.breaker.state is State.OPEN:
            self.attribution.record_outage()  # also explains sends that were in flight when the breaker opened
        return RetryLater(outcome.reason, outcome.after, answered=False) if cause is Cause.ROW else outcome

    def _recipient(self, delivery: Delivery) -> Hashable:
        return delivery.id if self._shared_address else delivery.recipient
