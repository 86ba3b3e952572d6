"""The classification of each provider's error responses."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from channel_dispatcher.channels import push, slack, sms
from channel_dispatcher.channels.http import classify_response
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


def without_reason(outcome: SendOutcome) -> SendOutcome:
    assert isinstance(outcome, RetryLater | Throttled | Undeliverable | ProviderDown)
    return replace(outcome, reason="r")


TWILIO = [
    ("the address", DEAD, (21211, 21217, 21265, 21268, 21610, 21614, 21635)),
    ("the message", REFUSED, (20413, 21214, 21266, 21602, 21604, 21605, 21617, 21618, 21619, 21658)),
    ("our account", MISCONFIGURED, (10001, 20003, 20005, 20006, 20008, 20010, 20403, 20404, 21219, 21608, 21609)),
    ("our sender", MISCONFIGURED, (21210, 21212, 21264, 21267, 21601, 21603, 21606, 21607, 21616, 21657, 21659)),
    ("our sender", MISCONFIGURED, (21660, 21661, 21663, 21668)),
    ("some destinations", MISCONFIGURED, (21408, 21612, 21662, 21910)),
    ("this moment", RETRY, (14107,)),
    ("this moment", THROTTLED, (20429, 21611, 60728, 63017, 63038)),
    ("this moment", DOWN, (20500, 20503, 20504, 21730)),
    ("an unknown cause", MISCONFIGURED, (20422, 29999)),
]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [pytest.param(code, outcome, id=f"{code} is about {what}") for what, outcome, codes in TWILIO for code in codes],
)
def test_a_code_of_twilio_is_classified_whatever_its_http_status(code: int, outcome: SendOutcome) -> None:
    for status in (400, 403, 422):
        assert without_reason(classify_response(sms.RULES, httpx.Response(status), code)) == outcome


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (302, RETRY),
        (400, MISCONFIGURED),
        (401, MISCONFIGURED),
        (404, MISCONFIGURED),
        (408, DOWN),
        (413, REFUSED),
        (429, THROTTLED),
        (500, DOWN),
        (503, DOWN),
    ],
)
def test_an_answer_without_a_code_of_twilio_is_classified_by_its_http_status(status: int, outcome: SendOutcome) -> None:
    assert without_reason(classify_response(sms.RULES, httpx.Response(status))) == outcome


@pytest.mark.parametrize(("rules", "keys", "outcome"), RESPONSES, ids=lambda value: str(value)[:40])
def test_a_response_is_classified(rules: Rules, keys: tuple[str, ...], outcome: SendOutcome) -> None:
    assert rules.classify(*keys, reason="r") == outcome


CERTAINLY_DOWN = ProviderDown("r", certain=True)
CERTAINLY_MISCONFIGURED = ProviderDown("r", needs_operator=True, certain=True)
REPLIES = [
    ("CONNECT", 421, "4.3.2 Service not available", CERTAINLY_DOWN),
    ("CONNECT", 454, "4.7.0 TLS not available due to temporary reason", CERTAINLY_DOWN),
    ("CONNECT", 521, "5.3.2 Host does not accept mail", CERTAINLY_MISCONFIGURED),
    ("CONNECT", 550, "5.7.1 EHLO: access denied", CERTAINLY_MISCONFIGURED),
    ("CONNECT", 554, "No SMTP service here", CERTAINLY_MISCONFIGURED),
    ("AUTH", 422, "4.7.12 A password transition is needed", CERTAINLY_MISCONFIGURED),
    ("AUTH", 432, "4.7.12 A password transition is needed", CERTAINLY_MISCONFIGURED),
    ("AUTH", 454, "4.7.0 Temporary authentication failure", CERTAINLY_DOWN),
    ("AUTH", 500, "5.5.6 Authentication Exchange line is too long", CERTAINLY_MISCONFIGURED),
    ("AUTH", 534, "5.7.9 Authentication mechanism is too weak", CERTAINLY_MISCONFIGURED),
    ("AUTH", 535, "5.7.8 Authentication credentials invalid", CERTAINLY_MISCONFIGURED),
    ("AUTH", 538, "5.7.11 Encryption required", CERTAINLY_MISCONFIGURED),
    ("MAIL", 450, "4.7.28 Mail flood detected", DOWN),
    ("MAIL", 451, "4.1.8 Sender's domain not found", MISCONFIGURED),
    ("MAIL", 451, "4.3.0 Local error", DOWN),
    ("MAIL", 452, "4.3.1 Insufficient system storage", DOWN),
    ("MAIL", 455, "Server unable to accommodate parameters", RETRY),
    ("MAIL", 501, "5.1.7 Bad sender address syntax", MISCONFIGURED),
    ("MAIL", 503, "5.5.1 Bad sequence of commands", MISCONFIGURED),
    ("MAIL", 525, "5.7.13 User account disabled", MISCONFIGURED),
    ("MAIL", 530, "5.7.0 Authentication required", MISCONFIGURED),
    ("MAIL", 530, "Must issue a STARTTLS command first", MISCONFIGURED),
    ("MAIL", 550, "5.1.8 Sender's domain not found", MISCONFIGURED),
    ("MAIL", 550, "5.1.1 No such user", MISCONFIGURED),
    ("MAIL", 550, "5.6.7 Non-ASCII addresses not permitted", REFUSED),
    ("MAIL", 550, "5.7.25 Reverse DNS validation failed", MISCONFIGURED),
    ("MAIL", 552, "5.3.4 Message size exceeds fixed limit", REFUSED),
    ("MAIL", 553, "Mailbox name not allowed", MISCONFIGURED),
    ("MAIL", 555, "Parameters not recognized", REFUSED),
    ("RCPT", 550, "5.1.0 Address rejected", DEAD),
    ("RCPT", 550, "5.1.0 Sender denied", MISCONFIGURED),
    ("RCPT", 550, "5.1.1 The email account that you tried to reach does not exist", DEAD),
    ("RCPT", 554, "5.1.1 Recipient address rejected", DEAD),
    ("RCPT", 550, "5.1.2 Host unknown", DEAD),
    ("RCPT", 501, "5.1.3 Bad recipient address syntax", DEAD),
    ("RCPT", 550, "5.1.4 Address ambiguous", DEAD),
    ("RCPT", 551, "5.1.6 Mailbox has moved", DEAD),
    ("RCPT", 550, "5.1.9 Relayed to non-compliant mailer", REFUSED),
    ("RCPT", 550, "5.1.10 Recipient address has null MX", DEAD),
    ("RCPT", 556, "Domain does not accept mail", DEAD),
    ("RCPT", 550, "5.2.0 Something about the mailbox", REFUSED),
    ("RCPT", 550, "5.2.1 The email account that you tried to reach is disabled", DEAD),
    ("RCPT", 552, "5.2.3 Message length exceeds administrative limit", REFUSED),
    ("RCPT", 550, "5.2.4 Mailing list expansion problem", REFUSED),
    ("RCPT", 550, "No such user here", DEAD),
    ("RCPT", 550, "Requested action not taken: mailbox unavailable", DEAD),
    ("RCPT", 550, "5.5.0 Requested action not taken: mailbox unavailable", DEAD),
    ("RCPT", 550, "User unknown", DEAD),
    ("RCPT", 553, "Invalid recipient", DEAD),
    ("RCPT", 550, "relay not permitted", MISCONFIGURED),
    ("RCPT", 550, "5.7.1 Unable to relay for anna@mail.example", MISCONFIGURED),
    ("RCPT", 550, "5.7.2 Mailing list expansion prohibited", REFUSED),
    ("RCPT", 550, "Sender address unknown", MISCONFIGURED),
    ("RCPT", 551, "User not local; please try <anna@other.example>", MISCONFIGURED),
    ("RCPT", 553, "sorry, that domain isn't in my list of allowed rcpthosts", MISCONFIGURED),
    ("RCPT", 554, "5.7.1 Service unavailable; client host blocked", MISCONFIGURED),
    ("RCPT", 550, "5.7.1 recipient unknown to our policy", MISCONFIGURED),
    ("RCPT", 504, "5.5.2 Helo command rejected: need fully-qualified hostname", MISCONFIGURED),
    ("RCPT", 550, "5.4.4 Unable to route", REFUSED),
    ("RCPT", 550, "5.3.0 Mail system status", DOWN),
    ("RCPT", 550, "5.3.3 System not capable of selected features", REFUSED),
    ("RCPT", 552, "5.2.2 Mailbox full", RETRY),
    ("RCPT", 552, "Exceeded storage allocation", RETRY),
    ("RCPT", 450, "4.1.8 Sender address rejected: Domain not found", MISCONFIGURED),
    ("RCPT", 450, "4.2.1 Mailbox disabled", RETRY),
    ("RCPT", 452, "4.2.2 Mailbox full", RETRY),
    ("RCPT", 450, "4.2.0 Greylisted", RETRY),
    ("RCPT", 450, "4.7.1 Greylisted", RETRY),
    ("RCPT", 450, "4.7.28 Mail flood detected", DOWN),
    ("RCPT", 451, "4.3.0 Local error in processing", DOWN),
    ("RCPT", 452, "4.3.1 Insufficient system storage", DOWN),
    ("RCPT", 451, "4.4.1 No answer from host", RETRY),
    ("RCPT", 451, "4.4.3 Directory server failure", DOWN),
    ("RCPT", 451, "4.4.5 Mail system congestion", DOWN),
    ("RCPT", 455, "4.5.4 Server unable to accommodate parameters", RETRY),
    ("RCPT", 421, "4.3.2 Closing", DOWN),
    ("RCPT", 421, "4.4.2 Bad connection", DOWN),
    ("DATA", 421, "4.2.1 Closing", DOWN),
    ("DATA", 450, "4.7.1 Rejected for policy reasons", RETRY),
    ("DATA", 451, "Local error in processing", DOWN),
    ("DATA", 451, "4.6.5 Conversion failed", RETRY),
    ("DATA", 451, "4.7.24 SPF validation error", DOWN),
    ("DATA", 502, "5.5.1 BDAT not implemented", MISCONFIGURED),
    ("DATA", 503, "5.5.1 Bad sequence of commands", MISCONFIGURED),
    ("DATA", 550, "5.7.1 Message refused as spam", REFUSED),
    ("DATA", 550, "5.1.1 No such user here", REFUSED),
    ("DATA", 550, "5.2.1 Mailbox disabled", REFUSED),
    ("DATA", 554, "Transaction failed", REFUSED),
    ("DATA", 554, "5.6.3 Conversion required but not supported", REFUSED),
    ("DATA", 554, "5.7.14 Trust relationship required", MISCONFIGURED),
    *[("DATA", 550, f"5.7.{detail} Not authenticated", MISCONFIGURED) for detail in (*range(20, 28), 29, 30)],
    ("DATA", 550, "5.7.28 Mail flood detected", DOWN),
    ("DATA", 552, "5.2.2 Mailbox full", RETRY),
    ("DATA", 552, "5.3.4 Message too big", REFUSED),
]


@pytest.mark.parametrize(("stage", "code", "text", "outcome"), REPLIES)
def test_an_smtp_reply_is_classified_by_stage_code_and_text(
    stage: str, code: int, text: str, outcome: SendOutcome
) -> None:
    classified = classify_reply(stage, code, text)
    assert without_reason(classified) == outcome
    assert getattr(classified, "reason", None) == f"{stage}: {code} {text}"


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
    assert push.RULES.classify("302 None", "302", "3xx", reason="r") == RETRY


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
