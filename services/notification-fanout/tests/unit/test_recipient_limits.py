"""The limit of messages per recipient, channel and hour."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from notification_fanout.recipient_limits import LimitedRecipient, SendWindow, apply_limits, count_limited
from notification_fanout.settings import Settings
from tablebell.people import DEFAULT_CHANNELS, DURABLE_CHANNELS, Channel, UserType

NOW = datetime(2026, 5, 8, 20, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DEFAULTS = Settings(database_url=SecretStr("postgresql://a@x/a"), amqp_url=SecretStr("amqp://x")).recipient_limits


def send(user_type: str = "CUSTOMER", channel: str = "SMS", **changes: Any) -> dict[str, Any]:
    given = {"user_type": user_type, "channel_type": channel, "recipient": "+39333", "next_attempt_at": None}
    return given | {"not_after": NOW + timedelta(days=1)} | changes


class Recipients:
    """Plans batches of messages as the expander does: `sent` stands for the rows in the database."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, str], list[datetime]] = {}

    def plan(self, *sends: dict[str, Any], now: datetime) -> int:
        recipients = count_limited(sends, DEFAULTS)
        windows = {each: self._window(each, messages, now) for each, messages in recipients.items()}
        limited = apply_limits(sends, DEFAULTS, windows, now)
        for each in sends:
            if "outcome" not in each:
                key = each["channel_type"], each["recipient"]
                self.sent.setdefault(key, []).append(each["next_attempt_at"] or now)
        return limited

    def _window(self, recipient: LimitedRecipient, messages: int, now: datetime) -> SendWindow:
        times = sorted(self.sent.get((recipient.channel, recipient.address), []), reverse=True)
        recent = [each for each in times if each > now - HOUR]
        first = max(recipient.limit - messages, 0)
        times = recent[first : first + min(recipient.limit, messages)]
        return SendWindow(recipient.limit, messages, times)


def busiest_hour(times: list[datetime]) -> int:
    return max(sum(start <= each < start + HOUR for each in times) for start in times)


def test_a_friday_night_of_a_busy_house_meets_no_limit() -> None:
    """One request every 2 s for four hours, each to three of the staff and an agency user on all of their channels."""
    recipients, limited = Recipients(), 0
    staff = [(UserType.RESTAURANT_USER, f"staff {number}") for number in range(3)] + [(UserType.AGENCY_USER, "agency")]
    channels = [channel for channel in DURABLE_CHANNELS if channel in DEFAULT_CHANNELS[UserType.RESTAURANT_USER]]
    for second in range(0, 4 * 3600, 2):
        sends = [send(user_type, channel, recipient=who) for user_type, who in staff for channel in channels]
        limited += recipients.plan(*sends, now=NOW + timedelta(seconds=second))
        if second > 3600:  # the window of an hour is full: every later second is the same
            break
    assert limited == 0
    assert {len(times) for times in recipients.sent.values()} == {1802}


def test_thirty_changes_within_a_second_make_few_sms() -> None:
    recipients, waiting = Recipients(), None
    for number in range(30):
        if waiting is not None:  # the next version withdraws what has not been sent
            recipients.sent["SMS", "+39333"].remove(waiting["next_attempt_at"])
        row = send()
        recipients.plan(row, now=NOW + number * timedelta(milliseconds=30))
        waiting = row if "last_error" in row else None
    assert len(recipients.sent["SMS", "+39333"]) == 7
    assert waiting is not None, "the newest state is told later"
    assert waiting["next_attempt_at"] == NOW + HOUR
    assert waiting["last_error"] == "at most 6 messages an hour to one recipient on SMS; waits until 21:00 UTC"


@pytest.mark.parametrize("batch", [1, 4, 25])
def test_no_hour_has_more_messages_than_the_limit(batch: int) -> None:
    recipients = Recipients()
    for number in range(100 // batch):
        recipients.plan(*(send() for _ in range(batch)), now=NOW + number * batch * timedelta(minutes=1))
    times = recipients.sent["SMS", "+39333"]
    assert len(times) == 100 - 100 % batch
    assert busiest_hour(times) == 6


def test_a_message_that_is_planned_for_later_counts_at_that_time() -> None:
    recipients, morning = Recipients(), NOW + timedelta(hours=12)
    for number in range(8):
        recipients.plan(send(next_attempt_at=morning), now=NOW + number * timedelta(minutes=5))
    assert sorted(recipients.sent["SMS", "+39333"]) == [morning] * 6 + [morning + HOUR] * 2


def test_a_message_that_would_be_useless_by_then_is_skipped_and_takes_no_place() -> None:
    recipients = Recipients()
    recipients.plan(*(send() for _ in range(6)), now=NOW)
    late, useful = send(not_after=NOW + timedelta(minutes=30)), send()
    assert recipients.plan(late, useful, now=NOW) == 2
    assert (late["outcome"], late["is_sent"]) == ("SKIPPED", False)
    assert late["last_error"] == "at most 6 messages an hour to one recipient on SMS; of no use later"
    assert useful["next_attempt_at"] == NOW + HOUR


def test_the_limit_depends_on_audience_and_channel() -> None:
    limits = {
        (user_type, channel): DEFAULTS.per_hour(user_type, channel)
        for user_type in UserType
        for channel in (Channel.EMAIL, Channel.SMS)
    }
    assert limits == {
        (UserType.CUSTOMER, Channel.EMAIL): 30,
        (UserType.CUSTOMER, Channel.SMS): 6,
        (UserType.RESTAURANT_USER, Channel.EMAIL): 3600,
        (UserType.RESTAURANT_USER, Channel.SMS): 3600,
        (UserType.AGENCY_USER, Channel.EMAIL): 3600,
        (UserType.AGENCY_USER, Channel.SMS): 3600,
        (UserType.ADMIN_USER, Channel.EMAIL): 0,
        (UserType.ADMIN_USER, Channel.SMS): 0,
    }


def test_skipped_and_withdrawn_messages_do_not_count() -> None:
    recipients = Recipients()
    closed: dict[str, Any] = {"is_sent": False, "outcome": "SKIPPED", "last_error": "no device"}
    recipients.plan(*(send(**closed) for _ in range(20)), now=NOW)
    assert recipients.plan(*(send() for _ in range(6)), now=NOW) == 0
