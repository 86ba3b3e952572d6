"""The checks of a chaos run report lost, duplicated and misdirected messages."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import sentinel

import pytest
from chaos import store
from chaos.browsers import Browser
from chaos.checks import Inbox, check_browsers, check_decisions, check_deliveries, check_order, check_requests
from chaos.load import Ask, Decision, Load
from chaos.people import People, Restaurant

from tablebell_tools.audit.check import Finding

SLOT = datetime(2030, 1, 1, 20, tzinfo=UTC)


def violated(findings: list[Finding]) -> set[str]:
    return {finding.check.title for finding in findings if finding.is_violation}


@pytest.fixture
def load() -> Load:
    restaurant = Restaurant(10, ["restaurant_user:50", "restaurant_user:51"])
    load = Load(sentinel.api, People([restaurant], [5], []), seed=1)
    load.asks = [Ask(5, restaurant, SLOT, "key", reservation=1)]
    load.decisions = [Decision(1, 2, "RESERVATION_ACCEPTED", "restaurant_user:50")]
    return load


def reservation(identity: int = 1, slot: datetime = SLOT) -> dict[str, Any]:
    return {"id": identity, "customer_id": 5, "slot_time": slot}


def test_an_answered_request_without_a_reservation_is_a_violation(load: Load) -> None:
    assert violated(check_requests(load, [reservation()])) == set()
    assert violated(check_requests(load, [])) == {"answered → its reservation"}


def test_a_duplicate_reservation_and_one_without_a_request_are_violations(load: Load) -> None:
    assert violated(check_requests(load, [reservation(), reservation(2)])) == {"reservation → one request"}
    unasked = reservation(2, SLOT.replace(hour=21))
    assert violated(check_requests(load, [reservation(), unasked])) == {"reservation → one request"}


def test_a_reservation_whose_answer_was_lost_matches_its_request(load: Load) -> None:
    load.asks[0].reservation = None
    assert violated(check_requests(load, [reservation()])) == set()


def test_an_answered_decision_has_an_event_and_one_winner(load: Load) -> None:
    event = {"aggregate_id": 1, "aggregate_version": 2, "event_type": "RESERVATION_ACCEPTED"}
    assert violated(check_decisions(load, [event])) == set()
    assert violated(check_decisions(load, [])) == {"answered decision → its event"}
    load.decisions.append(Decision(1, 2, "RESERVATION_ACCEPTED", "restaurant_user:51"))
    assert violated(check_decisions(load, [event])) == {"one winner of each race"}


def send(**changes: Any) -> dict[str, Any]:
    calls = {"taken": 1, "unanswered": 0, "cut_short": 0}
    person = {"user_type": "CUSTOMER", "user_id": 5, "reservation_id": 1, "aggregate_version": 1}
    return {"id": 7, "channel_type": "SMS", "is_sent": True, "outcome": "SENT", **person, **calls, **changes}


def test_sent_rows_and_received_messages_match() -> None:
    assert violated(check_deliveries([send()], [("SMS", 7)])) == set()
    assert violated(check_deliveries([send()], [])) == {"sent → at its provider"}
    assert violated(check_deliveries([], [("SMS", 7)])) == {"at a provider → its send"}


def test_a_second_copy_needs_a_second_call() -> None:
    twice = [("SMS", 7), ("SMS", 7)]
    assert violated(check_deliveries([send()], twice)) == {"copies → a call for each"}
    findings = check_deliveries([send(cut_short=1)], twice)
    assert violated(findings) == set()
    (duplicates,) = (finding for finding in findings if finding.check.name == "duplicates")
    assert (duplicates.wrong, duplicates.examples) == (1, ["1 by a dispatcher killed during the call"])


def test_messages_about_a_reservation_arrive_in_order_at_a_provider() -> None:
    sends = [send(), send(id=8, aggregate_version=2), send(id=9, aggregate_version=2), send(id=3, user_id=6)]
    in_order = [("SMS", 7), ("SMS", 7), ("SMS", 8), ("SMS", 9), ("SMS", 3)]
    assert not check_order(sends, in_order).is_violation
    for late in ([("SMS", 8), ("SMS", 7)], [("SMS", 9), ("SMS", 8)]):
        assert check_order(sends, late).is_violation


def test_a_send_that_was_given_up_is_a_violation() -> None:
    row = send(is_sent=False, outcome="EXHAUSTED")
    assert violated(check_deliveries([row], [])) == {"no send given up"}


@pytest.fixture
def browser() -> Browser:
    browser = Browser("customer:5", ["ws://127.0.0.1:1"], sentinel.api, sentinel.tokens)
    browser.notifications = {1: False, 2: True}
    browser.framed = {1}
    return browser


def test_a_browser_has_exactly_its_inbox(browser: Browser) -> None:
    stored = {1: False, 2: True}
    assert violated(check_browsers([Inbox(browser, frozenset(stored), stored)])) == set()
    for other in ({1: False}, {1: False, 2: False}, {1: False, 2: True, 3: False}):
        assert "browser = its inbox" in violated(check_browsers([Inbox(browser, frozenset(other), other)]))


def test_a_frame_for_another_person_is_a_violation(browser: Browser) -> None:
    browser.framed.add(9)
    stored = {1: False, 2: True}
    assert violated(check_browsers([Inbox(browser, frozenset(stored), stored)])) == {"no frame for somebody else"}


def test_the_store_has_one_function_per_query() -> None:
    assert all(callable(getattr(store, name, None)) for name in store.SQL)
