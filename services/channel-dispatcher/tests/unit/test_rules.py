"""What each provider's answers mean, channel by channel."""

from datetime import UTC, datetime, timedelta

import pytest

from channel_dispatcher.channels import email, push, slack, sms
from channel_dispatcher.outcome import Outcome, ProviderDown, RetryLater, Throttled, Undeliverable
from channel_dispatcher.rules import DEFAULT_THROTTLE, LONGEST_RETRY_AFTER, Rules, parse_retry_after

DEAD = Undeliverable("r", address_is_dead=True)
REFUSED = Undeliverable("r")
AGAIN = RetryLater("r")
SLOWER = Throttled("r", DEFAULT_THROTTLE)
DOWN = ProviderDown("r")
MISCONFIGURED = ProviderDown("r", needs_operator=True)

ANSWERS: list[tuple[Rules, tuple[str, ...], Outcome]] = [
    (email.RULES, ("DATA 421", "DATA 4xx", "421", "4xx"), AGAIN),
    (email.RULES, ("RCPT 450", "RCPT 4xx", "450", "4xx"), AGAIN),
    (email.RULES, ("RCPT 550", "RCPT 5xx", "550 5.1", "550", "5xx"), DEAD),
    (email.RULES, ("DATA 550", "DATA 5xx", "550 5.7", "550", "5xx"), REFUSED),
    (email.RULES, ("RCPT 554", "RCPT 5xx", "554 5.1", "554", "5xx"), DEAD),
    (email.RULES, ("DATA 554", "DATA 5xx", "554", "5xx"), REFUSED),
    (email.RULES, ("MAIL 550", "MAIL 5xx", "550", "5xx"), MISCONFIGURED),
    (email.RULES, ("MAIL 530", "MAIL 5xx", "530", "5xx"), MISCONFIGURED),
    (email.RULES, ("MAIL 552", "MAIL 5xx", "552", "5xx"), REFUSED),
    (email.RULES, ("AUTH 535", "AUTH 5xx"), MISCONFIGURED),
    (email.RULES, ("AUTH 454", "AUTH 4xx"), DOWN),
    (email.RULES, ("CONNECT 421", "CONNECT 4xx"), DOWN),
    (email.RULES, ("CONNECT 554", "CONNECT 5xx"), DOWN),
    (sms.RULES, ("400 21211", "400", "4xx"), DEAD),
    (sms.RULES, ("400 21610", "400", "4xx"), DEAD),
    (sms.RULES, ("400 21617", "400", "4xx"), REFUSED),
    (sms.RULES, ("401 20003", "401", "4xx"), MISCONFIGURED),
    (sms.RULES, ("429 20429", "429", "4xx"), SLOWER),
    (sms.RULES, ("500 20500", "500", "5xx"), AGAIN),
    (sms.RULES, ("503 None", "503", "5xx"), AGAIN),
    (push.RULES, ("404 UNREGISTERED", "404", "4xx"), DEAD),
    (push.RULES, ("404 None", "404", "4xx"), MISCONFIGURED),
    (push.RULES, ("400 INVALID_ARGUMENT", "400", "4xx"), REFUSED),
    (push.RULES, ("401 None", "401", "4xx"), MISCONFIGURED),
    (push.RULES, ("429 QUOTA_EXCEEDED", "429", "4xx"), SLOWER),
    (push.RULES, ("503 UNAVAILABLE", "503", "5xx"), AGAIN),
    (slack.RULES, ("400 None", "400", "4xx"), REFUSED),
    (slack.RULES, ("403 None", "403", "4xx"), MISCONFIGURED),
    (slack.RULES, ("404 None", "404", "4xx"), MISCONFIGURED),
    (slack.RULES, ("429 None", "429", "4xx"), SLOWER),
    (slack.RULES, ("500 None", "500", "5xx"), AGAIN),
]


@pytest.mark.parametrize(("rules", "keys", "outcome"), ANSWERS, ids=lambda value: str(value)[:40])
def test_an_answer_has_one_meaning(rules: Rules, keys: tuple[str, ...], outcome: Outcome) -> None:
    assert rules.judge(*keys, reason="r") == outcome


def test_what_no_rule_knows_is_tried_again() -> None:
    assert sms.RULES.judge("302 None", "302", "3xx", reason="r") == AGAIN


def test_the_providers_wish_is_kept() -> None:
    wish = timedelta(seconds=7)
    assert sms.RULES.judge("429", reason="r", after=wish) == Throttled("r", wish)
    assert sms.RULES.judge("503", "5xx", reason="r", after=wish) == RetryLater("r", wish)


NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
WISHES = [
    (None, None),
    ("7", timedelta(seconds=7)),
    ("0", timedelta(0)),
    ("-5", timedelta(0)),
    ("Thu, 01 Jan 2026 12:00:30 GMT", timedelta(seconds=30)),
    ("Thu, 01 Jan 2026 11:00:00 GMT", timedelta(0)),
    ("99999999999999999999", None),
    ("864000", LONGEST_RETRY_AFTER),
    ("soon", None),
]


@pytest.mark.parametrize(("value", "wish"), WISHES)
def test_retry_after_is_seconds_or_a_date_within_reason(value: str | None, wish: timedelta | None) -> None:
    assert parse_retry_after(value, NOW) == wish
