"""A provider's outage against a row that fails by itself."""

from datetime import timedelta

import pytest

from channel_dispatcher import failure_attribution as module
from channel_dispatcher.failure_attribution import Cause, FailureAttribution


def failed(attribution: FailureAttribution, row_id: int) -> Cause:
    return attribution.record_failure(row_id, certain=False)


def test_a_failure_that_nothing_contradicts_is_evidence_of_an_outage_however_often_it_repeats() -> None:
    attribution = FailureAttribution()
    assert {failed(attribution, 1) for _ in range(10)} == {Cause.PROVIDER}


def test_a_row_that_fails_while_others_are_answered_is_charged_from_its_second_failure_on() -> None:
    attribution, causes = FailureAttribution(), []
    for _ in range(4):
        causes.append(failed(attribution, 1))
        attribution.record_answer(2, works_now=True)
    assert causes == [Cause.PROVIDER, Cause.ROW, Cause.ROW, Cause.ROW]


def test_what_failed_before_the_breaker_opened_is_not_charged_when_the_outage_is_over() -> None:
    attribution = FailureAttribution()
    assert failed(attribution, 1) is Cause.PROVIDER
    attribution.record_outage()
    attribution.record_answer(2, works_now=True)
    assert failed(attribution, 1) is Cause.UNKNOWN, "not charged, and no evidence either: the provider works for others"


def test_a_provider_that_answers_once_and_goes_down_again_is_down() -> None:
    attribution = FailureAttribution()
    failed(attribution, 1)
    attribution.record_outage()
    attribution.record_answer(2, works_now=True)
    assert [failed(attribution, 1), failed(attribution, 1)] == [Cause.UNKNOWN, Cause.PROVIDER]


def test_an_answer_from_before_the_outage_proves_nothing() -> None:
    attribution = FailureAttribution()
    failed(attribution, 1)
    attribution.record_answer(2, works_now=False)
    assert failed(attribution, 1) is Cause.PROVIDER


def test_a_row_that_was_answered_starts_anew() -> None:
    attribution = FailureAttribution()
    failed(attribution, 1)
    attribution.record_answer(1, works_now=True)
    assert failed(attribution, 1) is Cause.PROVIDER
    assert attribution.extra_delay(1) == timedelta(seconds=1)


def test_what_cannot_be_the_rows_own_failure_is_never_charged() -> None:
    attribution = FailureAttribution()
    for _ in range(5):
        assert attribution.record_failure(1, certain=True) is Cause.PROVIDER
        attribution.record_answer(2, works_now=True)
    assert failed(attribution, 1) is not Cause.ROW


def test_a_row_that_fails_again_and_again_waits_longer_than_those_that_have_not_failed() -> None:
    attribution, waits = FailureAttribution(), []
    assert attribution.extra_delay(1) == timedelta(0)
    for _ in range(7):
        failed(attribution, 1)
        waits.append(attribution.extra_delay(1).total_seconds())
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_it_remembers_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    attribution = FailureAttribution()
    for row_id in range(5):
        failed(attribution, row_id)
    assert [bool(attribution.extra_delay(row_id)) for row_id in range(5)] == [False, False, True, True, True]
    attribution.record_answer(9, works_now=True)
    assert failed(attribution, 4) is Cause.ROW
