"""The classification of each provider's error responses."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from channel_dispatcher.channels import push, slack, sms
from channel_dispatcher.channels.smtp.reply_rules import classify_reply
from channel_dispatcher.error_rules import DEFAULT_THROTTLE, LONGEST_RETRY_AFTER, Rules, parse_retry_after
from channel_dispatcher.outcome import ProviderDown, RetryLater, SendOutcome, Throttled, Undeliverable

DEAD = Undeliverable("r", address_is_dead=True)
REFUSED = Undeliverable("r")
RETRY = RetryLater("r")
THROTTLED = Throttled("r", DEFAULT_THROTTLE)
DOWN = ProviderDown("r")
MISCONFIGURED = ProviderDown("r", needs_operator=True)

RESPONSES: list[tuple[Rules, tuple[str, ...], SendOutcome]] = [
    (sms.RULES, ("400 21211", "400", "4xx"), DEAD),
    (sms.RULES, ("400 21610", "400", "4xx"), DEAD),
    (sms.RULES, ("400 21614", "400", "4xx"), DEAD),
    (sms.RULES, ("400 21635", "400", "4xx"), DEAD),
    (sms.RULES, ("400 21617", "400", "4xx"), REFUSED),
    (sms.RULES, ("400 21606", "400", "4xx"), MISCONFIGURED),
    (sms.RULES, ("400 21408", "400", "4xx"), MISCONFIGURED),
    (sms.RULES, ("400 99999", "400", "4xx"), MISCONFIGURED),
    (sms.RULES, ("401 20003", "401", "4xx"), MISCONFIGURED),
    (sms.RULES, ("429 20429", "429", "4xx"), THROTTLED),
    (sms.RULES, ("400 21611", "400", "4xx"), THROTTLED),
    (sms.RULES, ("500 20500", "500", "5xx"), DOWN),
    (sms.RULES, ("503 None", "503", "5xx"), DOWN),
    (push.RULES, ("404 UNREGISTERED", "404", "4xx"), DEAD),
    (push.RULES, ("403 SENDER_ID_MISMATCH", "403", "4xx"), DEAD),
    (push.RULES, ("400 INVALID_ADDRESS", "400", "4xx"), DEAD),
    (push.RULES, ("404 None", "404", "4xx"), MISCONFIGURED),
    (push.RULES, ("403 None", "403", "4xx"), MISCONFIGURED),
    (push.RULES, ("400 INVALID_ARGUMENT", "400", "4xx"), REFUSED),
    (push.RULES, ("401 None", "401", "4xx"), MISCONFIGURED),
    (push.RULES, ("401 THIRD_PARTY_AUTH_ERROR", "401", "4xx"), MISCONFIGURED),
    (push.RULES, ("429 QUOTA_EXCEEDED", "429", "4xx"), THROTTLED),
    (push.RULES, ("500 INTERNAL", "500", "5xx"), DOWN),
    (push.RULES, ("503 UNAVAILABLE", "503", "5xx"), DOWN),
    (slack.RULES, ("400 invalid_payload", "400", "4xx"), REFUSED),
    (slack.RULES, ("400 too_many_attachments", "400", "4xx"), REFUSED),
    (slack.RULES, ("403 action_prohibited", "403", "4xx"), MISCONFIGURED),
    (slack.RULES, ("403 posting_to_general_channel_denied", "403", "4xx"), MISCONFIGURED),
    (slack.RULES, ("404 no_service", "404", "4xx"), MISCONFIGURED),
    (slack.RULES, ("404 channel_not_found", "404", "4xx"), MISCONFIGURED),
    (slack.RULES, ("410 channel_is_archived", "410", "4xx"), MISCONFIGURED),
    (slack.RULES, ("429 rate_limited", "429", "4xx"), THROTTLED),
    (slack.RULES, ("500 rollup_error", "500", "5xx"), DOWN),
]


@pytest.mark.parametrize(("rules", "keys", "outcome"), RESPONSES, ids=lambda value: str(value)[:40])
def test_a_response_is_classified(rules: Rules, keys: tuple[str, ...], outcome: SendOutcome) -> None:
    assert rules.classify(*keys, reason="r") == outcome


CERTAINLY_DOWN = ProviderDown("r", certain=True)
CERTAINLY_MISCONFIGURED = ProviderDown("r", needs_operator=True, certain=True)
REPLIES = [
    ("CONNECT", 421, "4.3.2 Service not available", CERTAINLY_DOWN),
    ("CONNECT", 554, "No SMTP service here", CERTAINLY_MISCONFIGURED),
    ("AUTH", 454, "4.7.0 Temporary authentication failure", CERTAINLY_DOWN),
    ("AUTH", 535, "5.7.8 Authentication credentials invalid", CERTAINLY_MISCONFIGURED),
    ("MAIL", 451, "4.3.0 Local error", DOWN),
    ("MAIL", 530, "5.7.0 Authentication required", MISCONFIGURED),
    ("MAIL", 550, "5.1.8 Sender's domain not found", MISCONFIGURED),
    ("MAIL", 550, "5.1.1 No such user", MISCONFIGURED),
    ("MAIL", 552, "5.3.4 Message size exceeds fixed limit", REFUSED),
    ("RCPT", 550, "5.1.1 The email account that you tried to reach does not exist", DEAD),
    ("RCPT", 554, "5.1.1 Recipient address rejected", DEAD),
    ("RCPT", 550, "5.1.10 Recipient address has null MX", DEAD),
    ("RCPT", 550, "5.2.1 The email account that you tried to reach is disabled", DEAD),
    ("RCPT", 550, "No such user here", DEAD),
    ("RCPT", 550, "Requested action not taken: mailbox unavailable", DEAD),
    ("RCPT", 550, "5.5.0 Requested action not taken: mailbox unavailable", DEAD),
    ("RCPT", 550, "User unknown", DEAD),
    ("RCPT", 553, "Invalid recipient", DEAD),
    ("RCPT", 550, "relay not permitted", MISCONFIGURED),
    ("RCPT", 550, "5.7.1 Unable to relay for anna@mail.example", MISCONFIGURED),
    ("RCPT", 550, "Sender address unknown", MISCONFIGURED),
    ("RCPT", 553, "sorry, that domain isn't in my list of allowed rcpthosts", MISCONFIGURED),
    ("RCPT", 554, "5.7.1 Service unavailable; client host blocked", MISCONFIGURED),
    ("RCPT", 550, "5.7.1 recipient unknown to our policy", MISCONFIGURED),
    ("RCPT", 552, "5.2.2 Mailbox full", RETRY),
    ("RCPT", 452, "4.2.2 Mailbox full", RETRY),
    ("RCPT", 450, "4.2.0 Greylisted", RETRY),
    ("RCPT", 451, "4.3.0 Local error in processing", DOWN),
    ("RCPT", 452, "4.3.1 Insufficient system storage", DOWN),
    ("RCPT", 421, "4.3.2 Closing", DOWN),
    ("DATA", 451, "Local error in processing", DOWN),
    ("DATA", 550, "5.7.1 Message refused as spam", REFUSED),
    ("DATA", 550, "5.1.1 No such user here", REFUSED),
    ("DATA", 554, "Transaction failed", REFUSED),
    ("DATA", 550, "5.7.26 Unauthenticated email is not accepted", MISCONFIGURED),
    ("DATA", 552, "5.2.2 Mailbox full", RETRY),
    ("DATA", 552, "5.3.4 Message too big", REFUSED),
]


@pytest.mark.parametrize(("stage", "code", "text", "outcome"), REPLIES)
def test_an_smtp_reply_is_classified_by_stage_code_and_text(
    stage: str, code: int, text: str, outcome: SendOutcome
) -> None:
    classified = classify_reply(stage, code, text)
    assert isinstance(classified, RetryLater | Undeliverable | ProviderDown)
    assert classified.reason == f"{stage}: {code} {text}"
    assert replace(classified, reason="r") == outcome


TOKEN = "The registration token is not a valid FCM registration token"
VIOLATION = {"fieldViolations": [{"field": "message.token", "description": "Invalid registration token"}]}
OTHER_VIOLATION = {"fieldViolations": [{"field": "message.data[0].value", "description": "not a registration token"}]}
FCM_ERROR = {"errorCode": "INVALID_ARGUMENT"}


@pytest.mark.parametrize(
    ("message", "details", "code"),
    [
        (TOKEN, [FCM_ERROR], "INVALID_ADDRESS"),
        ("Request contains an invalid argument.", [FCM_ERROR, VIOLATION], "INVALID_ADDRESS"),
        ("Request contains an invalid argument.", [VIOLATION], "INVALID_ADDRESS"),
        (TOKEN, [FCM_ERROR, OTHER_VIOLATION], "INVALID_ARGUMENT"),
        ("Message is too big", [FCM_ERROR], "INVALID_ARGUMENT"),
        ("Invalid JSON payload received.", [], None),
        ("Invalid JSON payload received.", ["nonsense", {"fieldViolations": "nonsense"}], None),
    ],
)
def test_invalid_argument_of_fcm_is_about_the_address_if_it_names_the_token(
    message: str, details: list[Any], code: str | None
) -> None:
    error = {"code": 400, "status": "INVALID_ARGUMENT", "message": message, "details": details}
    assert push._error_code({"error": error}) == code


def test_a_response_without_a_rule_is_retried() -> None:
    assert sms.RULES.classify("302 None", "302", "3xx", reason="r") == RETRY


def test_retry_after_is_part_of_the_outcome() -> None:
    delay = timedelta(seconds=7)
    assert sms.RULES.classify("429", reason="r", after=delay) == Throttled("r", delay)
    assert sms.RULES.classify("503", "5xx", reason="r", after=delay) == ProviderDown("r", after=delay)


NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RETRY_AFTERS = [
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


@pytest.mark.parametrize(("value", "delay"), RETRY_AFTERS)
def test_retry_after_is_seconds_or_a_date_and_limited(value: str | None, delay: timedelta | None) -> None:
    assert parse_retry_after(value, NOW) == delay
