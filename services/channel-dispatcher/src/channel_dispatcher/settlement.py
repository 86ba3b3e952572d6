"""How an attempt's outcome is written down: whether the row is finished, when it is due again, what counts. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from channel_dispatcher.delivery import Delivery
from channel_dispatcher.outcome import NotTried, ProviderDown, RetryLater, SendOutcome, Sent, Throttled, Undeliverable
from tablebell.retry import RetryPolicy

NONE = timedelta(0)
# A provider that was not there is not asked again in the same breath, even while the channel is still open.
SHORTEST_PAUSE = timedelta(milliseconds=100)
LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Settlement:
    delivery: Delivery
    result: str
    """SENT, UNDELIVERABLE and EXHAUSTED finish the row; RETRY, THROTTLED, DOWN and UNTRIED leave it open."""
    error: str | None = None
    provider_message_id: str | None = None
    pause: timedelta = NONE
    counts: bool = True
    """Whether this was an attempt of the row's own, of which it has only so many."""
    address_is_dead: bool = False


def settle(  # noqa: PLR0911
    delivery: Delivery, outcome: SendOutcome, policy: RetryPolicy, cool_down: timedelta, hold_back: timedelta = NONE
) -> Settlement:
    """`cool_down` is how long the channel stays closed: nothing that it sent back is due earlier. `hold_back` is how
    much longer a row waits that has failed itself, so that other rows are the next to probe the provider."""
    match outcome:
        case Sent(provider_message_id):
            return Settlement(delivery, "SENT", provider_message_id=provider_message_id and _clean(provider_message_id))
        case RetryLater(reason, after):
            if delivery.attempt >= policy.max_attempts:
                return Settlement(delivery, "EXHAUSTED", _clean(reason))
            pause = max(policy.pause_after(delivery.attempt), after or NONE)
            return Settlement(delivery, "RETRY", _clean(reason), pause=pause)
        case Throttled(reason, after):
            return Settlement(delivery, "THROTTLED", _clean(reason), pause=max(after, SHORTEST_PAUSE), counts=False)
        case Undeliverable(reason, address_is_dead):
            return Settlement(delivery, "UNDELIVERABLE", _clean(reason), address_is_dead=address_is_dead)
        case ProviderDown(reason, after=after):
            pause = max(cool_down + hold_back, after or NONE, SHORTEST_PAUSE)
            return Settlement(delivery, "DOWN", _clean(reason), pause=pause, counts=False)
        case NotTried(reason):
            return Settlement(delivery, "UNTRIED", _clean(reason), pause=cool_down, counts=False)
        case _:
            assert_never(outcome)


def _clean(text: str) -> str:
    """A text from outside may hold anything; PostgreSQL takes no NUL and no half letters, and an operator no novel."""
    whole = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
    return " ".join(whole.split())[:LONGEST_TEXT]
