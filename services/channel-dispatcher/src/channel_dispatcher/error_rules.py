"""Classifies a provider's error responses. Each channel has one table, from codes to error classes. Pure.

A key is a status code ("429"), a range ("5xx"), the provider's own code ("code 21211"), or a code with a detail
("404 UNREGISTERED", "MAIL 5xx"). The caller passes the keys that describe a response, the most specific first; the
first one in the table decides.
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
    """What an error is about: this message, this address, our account, or a temporary condition."""

    RETRY = auto()  # this message or address, temporarily; shows that the provider works
    THROTTLED = auto()  # we exceed a rate limit
    DEAD_ADDRESS = auto()  # this address, permanently
    REFUSED = auto()  # this message, permanently; the address may be valid
    DOWN = auto()  # an outage, unless other messages get through
    MISCONFIGURED = auto()  # our credentials or settings, unless other messages get through


class Rules:
    def __init__(self, table: Mapping[str, ErrorClass]) -> None:
        self._table = table

    def classify(self, *keys: str, reason: str, after: timedelta | None = None, certain: bool = False) -> SendOutcome:
        """A response without a rule is retried: permanent failures are listed explicitly.

        `certain`: the provider had received nothing of the message yet.
        """
        error_class = next((self._table[key] for key in keys if key in self._table), ErrorClass.RETRY)
        match error_class:
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
                assert_never(error_class)


def code_class(code: int) -> str:
    """503 → 5xx"""
    return f"{code // 100}xx"


def parse_retry_after(value: str | None, now: datetime | None = None) -> timedelta | None:
    """HTTP's Retry-After: seconds or a date. None if it is missing or invalid."""
    if value is None:
        return None
    try:
        delay = timedelta(seconds=int(value))
    except (ValueError, OverflowError):
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        # A date without a zone means UTC in HTTP.
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        delay = moment - (now or datetime.now(UTC))
    return min(max(delay, timedelta(0)), LONGEST_RETRY_AFTER)
