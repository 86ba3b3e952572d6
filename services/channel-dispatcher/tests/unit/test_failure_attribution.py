"""The attribution of failures to the provider or to a row."""

from datetime import timedelta

import pytest

from channel_dispatcher import failure_attribution as module
from channel_dispatcher.failure_attribution import Cause, FailureAttribution


def failed(attribution: FailureAttribution, row_id: int) -> Cause:
    return attribution.record_failure(row_id, certain=False)


def test_repeated_failures_without_other_answers_are_attributed_to_the_provider() -> None:
    attribution = FailureAttribution()
    assert {failed(attribution, 1) for _ in range(10)} == {Cause.PROVIDER}


def test_a_row_that_fails_while_others_are_answered_is_the_cause_from_its_second_failure_on() -> None:
    attribution, causes = FailureAttribution(), []
    for _ in range(4):
        causes.append(failed(attribution, 1))
        attribution.record_answer(2, works_now=True)
    assert causes == [Cause.PROVIDER, Cause.ROW, Cause.ROW, Cause.ROW]


def test_failures_before_the_breaker_opened_are_not_charged_after_the_outage() -> None:
    attribution = FailureAttribution()
    assert failed(attribution, 1) is Cause.PROVIDER
    attribution.record_outage()
    attribution.record_answer(2, works_now=True)
    assert failed(attribution, 1) is Cause.UNKNOWN, (
        "not charged, and not evidence of an outage: the provider works for others"
    )


def test_a_provider_that_answers_once_and_goes_down_again_is_the_cause() -> None:
    attribution = FailureAttribution()
    failed(attribution, 1)
    attribution.record_outage()
    attribution.record_answer(2, works_now=True)
    assert [failed(attribution, 1), failed(attribution, 1)] == [Cause.UNKNOWN, Cause.PROVIDER]


def test_an_answer_to_a_call_from_before_the_outage_is_ignored() -> None:
    attribution = FailureAttribution()
    failed(attribution, 1)
    attribution.record_answer(2, works_now=False)
    assert failed(attribution, 1) is Cause.PROVIDER


def test_an_answer_resets_the_failures_of_its_row() -> None:
    attribution = FailureAttribution()
    failed(attribution, 1)
    attribution.record_answer(1, works_now=True)
    assert failed(attribution, 1) is Cause.PROVIDER
    assert attribution.extra_delay(1) == timedelta(seconds=1)


def test_certain_failures_are_never_charged() -> None:
    attribution = FailureAttribution()
    for _ in range(5):
        assert attribution.record_failure(1, certain=True) is Cause.PROVIDER
        attribution.record_answer(2, works_now=True)
    assert failed(attribution, 1) is not Cause.ROW


def test_the_extra_delay_doubles_with_each_failure() -> None:
    attribution, waits = FailureAttribution(), []
    assert attribution.extra_delay(1) == timedelta(0)
    for _ in range(7):
        failed(attribution, 1)
        waits.append(attribution.extra_delay(1).total_seconds())
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_the_number_of_remembered_rows_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    attribution = FailureAttribution()
    for row_id in range(5):
        failed(attribution, row_id)
    assert [bool(attribution.extra_delay(row_id)) for row_id in range(5)] == [False, False, True, True, True]
    attribution.record_answer(9, works_now=True)
    assert failed(attribution, 4) is Cause.ROW
