"""Limits the messages per recipient, channel and hour. Pure.

A message over the limit waits until the window of an hour has room for it. A later version of the reservation withdraws
it meanwhile, as any unsent message, and takes its place: the recipient gets the current state, once. A message that
would be useless by then is skipped.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tablebell.people import Channel, UserType

WINDOW = timedelta(hours=1)
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecipientLimits:
    """Messages per hour to one recipient, for each channel; 0 is no limit. Admins have none: they get all events."""

    customer_sms: int = 0
    customer_other: int = 0
    staff: int = 0
    """Restaurant and agency users."""

    def per_hour(self, user_type: str, channel: str) -> int:
        match UserType(user_type):
            case UserType.CUSTOMER:
                return self.customer_sms if channel == Channel.SMS else self.customer_other
            case UserType.RESTAURANT_USER | UserType.AGENCY_USER:
                return self.staff
            case UserType.ADMIN_USER:
                return 0


@dataclass(frozen=True, slots=True)
class LimitedRecipient:
    channel: str
    address: str
    limit: int


class SendWindow:
    """Gives the messages of a batch to one recipient their due times.

    Only the due times that the limit can hit are kept. With a limit of 6 and one new message, that is the 6th latest
    time: the new message is due an hour later.
    """

    def __init__(self, limit: int, messages: int, times: Sequence[datetime]) -> None:
        """`messages`: in this batch. `times`: the latest due times, without the first `limit - messages` of them."""
        missing = min(messages, limit) - len(times)
        self._times = [LONG_AGO] * missing + sorted(times)

    def earliest(self, planned: datetime) -> datetime:
        """When a message that is planned for this time may be sent."""
        return max(planned, self._times[0] + WINDOW)

    def take(self, due: datetime) -> None:
        heapq.heapreplace(self._times, due)


def count_limited(sends: Iterable[Mapping[str, Any]], limits: RecipientLimits) -> Counter[LimitedRecipient]:
    """The recipients that have a limit, with the number of their open sends."""
    recipients = (_recipient(send, limits) for send in sends)
    return Counter(each for each in recipients if each is not None)


def apply_limits(
    sends: Iterable[MutableMapping[str, Any]],
    limits: RecipientLimits,
    windows: Mapping[LimitedRecipient, SendWindow],
    now: datetime,
) -> int:
    """Postpones or skips the sends over the limit, with the reason. Returns how many."""
    limited = 0
    for send in sends:
        recipient = _recipient(send, limits)
        if recipient is None:
            continue
        window, planned = windows[recipient], send["next_attempt_at"] or now
        due = window.earliest(planned)
        if due > planned:
            limited += 1
            reason = f"at most {recipient.limit} messages an hour to one recipient on {recipient.channel}"
            if due >= send["not_after"]:
                send.update(is_sent=False, outcome="SKIPPED", last_error=f"{reason}; of no use later")
                continue
            send["last_error"] = f"{reason}; waits until {due.astimezone(UTC):%H:%M} UTC"
        send["next_attempt_at"] = due
        window.take(due)
    return limited


def _recipient(send: Mapping[str, Any], limits: RecipientLimits) -> LimitedRecipient | None:
    """None for a send that is not open, and without a limit."""
    limit = limits.per_hour(send["user_type"], send["channel_type"])
    is_open = "outcome" not in send
    return LimitedRecipient(send["channel_type"], send["recipient"], limit) if limit and is_open else None
