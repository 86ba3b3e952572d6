"""Turns a send outcome into the values to record: the result, when the row is due again, whether the attempt counts.

Pure.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from channel_dispatcher.delivery import Delivery
from channel_dispatcher.outcome import NotTried, ProviderDown, RetryLater, SendOutcome, Sent, Throttled, Undeliverable
from tablebell.retry import RetryPolicy

NONE = timedelta(0)
# Do not call an unreachable provider again at once, even while the breaker is still closed.
SHORTEST_PAUSE = timedelta(milliseconds=100)
LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    delivery: Delivery
    result: str
    """SENT, UNDELIVERABLE and EXHAUSTED finish the row; RETRY, THROTTLED, DOWN and UNTRIED leave it open."""
    error: str | None = None
    provider_message_id: str | None = None
    pause: timedelta = NONE
    counts: bool = True
    """Whether this counts towards the row's maximum number of attempts."""
    address_is_dead: bool = False


def build_record(  # noqa: PLR0911
    delivery: Delivery, outcome: SendOutcome, policy: RetryPolicy, cool_down: timedelta, extra_delay: timedelta = NONE
) -> AttemptRecord:
    """`cool_down`: how long the breaker stays open; no returned row is due earlier. `extra_delay`: how much longer a
    row waits that has failed, so that other rows probe the provider first."""
    match outcome:
        case Sent(message_id):
            return AttemptRecord(delivery, "SENT", provider_message_id=message_id and _clean(message_id))
        case RetryLater(reason, after):
            if delivery.attempt >= policy.max_attempts:
                return AttemptRecord(delivery, "EXHAUSTED", _clean(reason))
            pause = max(policy.pause_after(delivery.attempt), after or NONE)
            return AttemptRecord(delivery, "RETRY", _clean(reason), pause=pause)
        case Throttled(reason, after):
            return AttemptRecord(delivery, "THROTTLED", _clean(reason), pause=max(after, SHORTEST_PAUSE), counts=False)
        case Undeliverable(reason, address_is_dead):
            return AttemptRecord(delivery, "UNDELIVERABLE", _clean(reason), address_is_dead=address_is_dead)
        case ProviderDown(reason, after=after):
            pause = max(cool_down + extra_delay, after or NONE, SHORTEST_PAUSE)
            return AttemptRecord(delivery, "DOWN", _clean(reason), pause=pause, counts=False)
        case NotTried(reason):
            return AttemptRecord(delivery, "UNTRIED", _clean(reason), pause=cool_down, counts=False)
        case _:
            assert_never(outcome)


def _clean(text: str) -> str:
    """Removes NUL and lone surrogates, which PostgreSQL rejects, collapses white space, and limits the length."""
    whole = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
    return " ".join(whole.split())[:LONGEST_TEXT]
