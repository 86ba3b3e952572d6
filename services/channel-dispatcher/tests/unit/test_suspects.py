"""A provider's outage against a row that fails by itself."""

from datetime import timedelta

import pytest

from channel_dispatcher import suspects as module
from channel_dispatcher.suspects import Finding, Suspects


def failed(suspects: Suspects, row_id: int) -> Finding:
    return suspects.failed(row_id, certain=False)


def test_a_failure_that_nothing_contradicts_is_evidence_of_an_outage_however_often_it_repeats() -> None:
    suspects = Suspects()
    assert {failed(suspects, 1) for _ in range(10)} == {Finding.EVIDENCE}


def test_a_row_that_fails_while_others_are_answered_is_charged_from_its_second_failure_on() -> None:
    suspects, findings = Suspects(), []
    for _ in range(4):
        findings.append(failed(suspects, 1))
        suspects.answered(2, is_proof=True)
    assert findings == [Finding.EVIDENCE, Finding.OWN, Finding.OWN, Finding.OWN]


def test_what_failed_before_the_breaker_opened_is_not_charged_when_the_outage_is_over() -> None:
    suspects = Suspects()
    assert failed(suspects, 1) is Finding.EVIDENCE
    suspects.outage()
    suspects.answered(2, is_proof=True)
    assert failed(suspects, 1) is Finding.NEUTRAL, "not charged, and no evidence either: the provider works for others"


def test_a_provider_that_answers_once_and_goes_down_again_is_down() -> None:
    suspects = Suspects()
    failed(suspects, 1)
    suspects.outage()
    suspects.answered(2, is_proof=True)
    assert [failed(suspects, 1), failed(suspects, 1)] == [Finding.NEUTRAL, Finding.EVIDENCE]


def test_an_answer_from_before_the_outage_proves_nothing() -> None:
    suspects = Suspects()
    failed(suspects, 1)
    suspects.answered(2, is_proof=False)
    assert failed(suspects, 1) is Finding.EVIDENCE


def test_a_row_that_was_answered_starts_anew() -> None:
    suspects = Suspects()
    failed(suspects, 1)
    suspects.answered(1, is_proof=True)
    assert failed(suspects, 1) is Finding.EVIDENCE
    assert suspects.hold_back(1) == timedelta(seconds=1)


def test_what_cannot_be_the_rows_own_failure_is_never_charged() -> None:
    suspects = Suspects()
    for _ in range(5):
        assert suspects.failed(1, certain=True) is Finding.EVIDENCE
        suspects.answered(2, is_proof=True)
    assert failed(suspects, 1) is not Finding.OWN


def test_a_row_that_fails_again_and_again_waits_longer_than_those_that_have_not_failed() -> None:
    suspects, waits = Suspects(), []
    assert suspects.hold_back(1) == timedelta(0)
    for _ in range(7):
        failed(suspects, 1)
        waits.append(suspects.hold_back(1).total_seconds())
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_it_remembers_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 3)
    suspects = Suspects()
    for row_id in range(5):
        failed(suspects, row_id)
    assert [bool(suspects.hold_back(row_id)) for row_id in range(5)] == [False, False, True, True, True]
    suspects.answered(9, is_proof=True)
    assert failed(suspects, 4) is Finding.OWN
