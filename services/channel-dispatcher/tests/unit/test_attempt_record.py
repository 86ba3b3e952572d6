"""The record of each outcome."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from channel_dispatcher.attempt_record import AttemptRecord, build_record
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.outcome import NotTried, ProviderDown, RetryLater, SendOutcome, Sent, Throttled, Undeliverable
from channel_dispatcher.settings import Settings
from tablebell.retry import RetryPolicy

PAUSES = tuple(timedelta(seconds=pause) for pause in Settings.model_fields["retry_pauses"].default)
POLICY = RetryPolicy(5, PAUSES)
COOL = timedelta(seconds=3)


def delivery(attempt: int = 1) -> Delivery:
    return Delivery(1, uuid4(), 1, attempt, "CUSTOMER", 5, "a@b.example", {}, {}, datetime.now(UTC))


def record_for(outcome: SendOutcome, attempt: int = 1) -> AttemptRecord:
    return build_record(delivery(attempt), outcome, POLICY, COOL)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 5), (2, 30), (3, 120), (4, 600)])
def test_retry_pauses_are_5_s_30_s_2_min_and_10_min_within_20_percent(attempt: int, seconds: float) -> None:
    pauses = [record_for(RetryLater("busy"), attempt).pause.total_seconds() for _ in range(300)]
    assert 0.8 * seconds <= min(pauses) < 0.85 * seconds
    assert 1.15 * seconds < max(pauses) <= 1.2 * seconds


def test_the_fifth_attempt_is_the_last() -> None:
    last = record_for(RetryLater("busy"), attempt=5)
    assert (last.result, last.error, last.counts) == ("EXHAUSTED", "busy", True)


def test_a_longer_retry_after_replaces_the_pause() -> None:
    assert record_for(RetryLater("busy", timedelta(minutes=1))).pause == timedelta(minutes=1)


def test_throttled_down_and_untried_results_cost_no_attempt() -> None:
    throttled = record_for(Throttled("429", timedelta(seconds=9)), attempt=5)
    assert (throttled.result, throttled.counts, throttled.pause) == ("THROTTLED", False, timedelta(seconds=9))
    down = record_for(ProviderDown("refused"), attempt=5)
    assert (down.result, down.counts, down.pause) == ("DOWN", False, COOL)
    delayed = build_record(
        delivery(), ProviderDown("503", after=timedelta(seconds=9)), POLICY, COOL, timedelta(seconds=4)
    )
    assert delayed.pause == timedelta(seconds=9), "the provider's Retry-After"
    delayed = build_record(delivery(), ProviderDown("503"), POLICY, COOL, timedelta(seconds=4))
    assert delayed.pause == COOL + timedelta(seconds=4), "other rows probe the provider first"
    untried = record_for(NotTried("stopping"), attempt=5)
    assert (untried.result, untried.counts, untried.pause) == ("UNTRIED", False, COOL)


def test_a_dead_address_differs_from_a_refused_message() -> None:
    assert record_for(Undeliverable("550", address_is_dead=True)).address_is_dead
    assert not record_for(Undeliverable("554")).address_is_dead


def test_sent_has_the_providers_message_id() -> None:
    assert record_for(Sent("SM1")).provider_message_id == "SM1"


def test_an_error_text_is_one_line_without_nul_and_of_limited_length() -> None:
    error = record_for(RetryLater("a\x00b\r\nc\ud800" + "x" * 5000)).error
    assert error is not None
    assert error.startswith("ab c?x")
    assert len(error) == 1000
