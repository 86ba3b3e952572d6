"""The outcome of one attempt, as a value: a channel returns it, and only the recorder writes it. Pure."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Sent:
    """The provider accepted the message."""

    provider_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The attempt failed, and a later one may succeed. Counts as an attempt."""

    reason: str
    after: timedelta | None = None
    """The provider's Retry-After, if any: the pause is never shorter."""
    answered: bool = True
    """The provider answered about this message, which shows that it works."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """We exceed a rate limit. Does not count as an attempt."""

    reason: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """Another attempt cannot succeed."""

    reason: str
    address_is_dead: bool = False
    """The address is the cause: later messages to it are skipped."""
    answered: bool = True
    """The provider answered about this message, which shows that it works."""


@dataclass(frozen=True, slots=True)
class ProviderDown:
    """The provider is down, rejects our credentials, or fails for this message alone. The outcomes of other messages
    decide which: an outage costs no attempt, a failure that the row caused does."""

    reason: str
    needs_operator: bool = False
    """Our settings or credentials are wrong: an operator has to correct them."""
    certain: bool = False
    """It failed before the provider received anything of the message, so the message cannot be the cause."""
    after: timedelta | None = None
    """The provider's Retry-After, if any: the pause is never shorter."""


@dataclass(frozen=True, slots=True)
class NotTried:
    """The provider was not called: the breaker opened, the lease ended or the service stopped first."""

    reason: str


SendOutcome = Sent | RetryLater | Throttled | Undeliverable | ProviderDown | NotTried
