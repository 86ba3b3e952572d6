"""What is written down for each outcome."""

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


def settled(outcome: SendOutcome, attempt: int = 1) -> AttemptRecord:
    return build_record(delivery(attempt), outcome, POLICY, COOL)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 5), (2, 30), (3, 120), (4, 600)])
def test_the_pauses_are_5_s_30_s_2_min_and_10_min_give_or_take_a_fifth(attempt: int, seconds: float) -> None:
    pauses = [settled(RetryLater("busy"), attempt).pause.total_seconds() for _ in range(300)]
    assert 0.8 * seconds <= min(pauses) < 0.85 * seconds
    assert 1.15 * seconds < max(pauses) <= 1.2 * seconds


def test_the_fifth_attempt_is_the_last() -> None:
    last = settled(RetryLater("busy"), attempt=5)
    assert (last.result, last.error, last.counts) == ("EXHAUSTED", "busy", True)


def test_a_provider_that_asks_for_more_time_gets_it() -> None:
    assert settled(RetryLater("busy", timedelta(minutes=1))).pause == timedelta(minutes=1)


def test_throttling_outages_and_what_was_not_tried_cost_no_attempt() -> None:
    throttled = settled(Throttled("429", timedelta(seconds=9)), attempt=5)
    assert (throttled.result, throttled.counts, throttled.pause) == ("THROTTLED", False, timedelta(seconds=9))
    down = settled(ProviderDown("refused"), attempt=5)
    assert (down.result, down.counts, down.pause) == ("DOWN", False, COOL)
    held = build_record(delivery(), ProviderDown("503", after=timedelta(seconds=9)), POLICY, COOL, timedelta(seconds=4))
    assert held.pause == timedelta(seconds=9), "the provider's own wish"
    held = build_record(delivery(), ProviderDown("503"), POLICY, COOL, timedelta(seconds=4))
    assert held.pause == COOL + timedelta(seconds=4), "other rows are the next to probe it"
    untried = settled(NotTried("stopping"), attempt=5)
    assert (untried.result, untried.counts, untried.pause) == ("UNTRIED", False, COOL)


def test_a_dead_address_is_told_apart_from_a_refused_message() -> None:
    assert settled(Undeliverable("550", address_is_dead=True)).address_is_dead
    assert not settled(Undeliverable("554")).address_is_dead


def test_sent_keeps_the_providers_id() -> None:
    assert settled(Sent("SM1")).provider_message_id == "SM1"


def test_an_error_from_outside_is_one_line_without_nul_and_of_bounded_length() -> None:
    error = settled(RetryLater("a\x00b\r\nc\ud800" + "x" * 5000)).error
    assert error is not None
    assert error.startswith("ab c?x")
    assert len(error) == 1000
