"""What a provider's answer means. Each channel has one table of rules, from codes to verdicts. Pure.

A rule's key is a code ("429"), a class of codes ("5xx"), or a code with what it came with ("400 21211", "MAIL 5xx").
The caller names the keys that describe an answer, the most telling first; the first one in the table decides.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import assert_never

from channel_dispatcher.outcome import ProviderDown, RetryLater, SendOutcome, Throttled, Undeliverable

DEFAULT_THROTTLE = timedelta(seconds=5)
LONGEST_RETRY_AFTER = timedelta(hours=1)


class ErrorClass(Enum):
    """What an answer is about: this message, this address, us, or the present moment."""

    RETRY = auto()  # this message or address, for now; shows that the provider works
    THROTTLED = auto()  # we are too fast
    DEAD_ADDRESS = auto()  # this address, for good
    REFUSED = auto()  # this message, for good, which says nothing of the address
    DOWN = auto()  # an outage, unless other messages get through
    MISCONFIGURED = auto()  # our credentials or settings, unless other messages get through


class Rules:
    def __init__(self, table: Mapping[str, ErrorClass]) -> None:
        self._table = table

    def judge(self, *keys: str, reason: str, after: timedelta | None = None, certain: bool = False) -> SendOutcome:
        """An answer that no rule knows is tried again: what is final is said explicitly.

        `certain`: the provider had not been told of the message yet.
        """
        verdict = next((self._table[key] for key in keys if key in self._table), ErrorClass.RETRY)
        match verdict:
            case ErrorClass.RETRY:
                return RetryLater(reason, after)
            case ErrorClass.THROTTLED:
                return Throttled(reason, after or DEFAULT_THROTTLE)
            case ErrorClass.DEAD_ADDRESS:
                return Undeliverable(reason, address_is_dead=True)
            case ErrorClass.REFUSED:
                return Undeliverable(reason)
            case ErrorClass.DOWN:
                return ProviderDown(reason, certain=certain, after=after)
            case ErrorClass.MISCONFIGURED:
                return ProviderDown(reason, needs_operator=True, certain=certain, after=after)
            case _:
                assert_never(verdict)


def code_class(code: int) -> str:
    """503 → 5xx"""
    return f"{code // 100}xx"


def parse_retry_after(value: str | None, now: datetime | None = None) -> timedelta | None:
    """Retry-After as HTTP has it: seconds or a date. None when there is none that makes sense."""
    if value is None:
        return None
    try:
        wish = timedelta(seconds=int(value))
    except (ValueError, OverflowError):
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        # A date without a zone means UTC in HTTP.
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        wish = moment - (now or datetime.now(UTC))
    return min(max(wish, timedelta(0)), LONGEST_RETRY_AFTER)
