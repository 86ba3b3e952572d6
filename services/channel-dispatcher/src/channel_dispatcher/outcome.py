"""What became of one attempt, as a value: a channel returns it, only the recorder writes it down. Pure."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Sent:
    """The provider took it."""

    provider_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class RetryLater:
    """It failed, and may go well another time. Counts as an attempt."""

    reason: str
    after: timedelta | None = None
    """The provider's own wish, if it has one; the pause is never shorter."""
    answered: bool = True
    """The provider answered about this message, which shows that it works."""


@dataclass(frozen=True, slots=True)
class Throttled:
    """We are too fast. No fault of the row: it costs no attempt."""

    reason: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """Another attempt could not end differently."""

    reason: str
    address_is_dead: bool = False
    """The address itself is to blame, so nothing else should be sent there either."""
    answered: bool = True
    """The provider answered about this message, which shows that it works."""


@dataclass(frozen=True, slots=True)
class ProviderDown:
    """The provider is down or refuses us, or it fails at this message alone. What becomes of other messages decides: an
    outage costs no attempt, a failure of the row's own does."""

    reason: str
    needs_operator: bool = False
    """It does not pass by itself: our settings or credentials are wrong."""
    certain: bool = False
    """It failed before the provider was told of the message, so the message cannot be the cause."""
    after: timedelta | None = None
    """The provider's own wish, if it has one; the pause is never shorter."""


@dataclass(frozen=True, slots=True)
class NotTried:
    """The provider was not called: the channel closed or the service stopped first."""

    reason: str


SendOutcome = Sent | RetryLater | Throttled | Undeliverable | ProviderDown | NotTried
