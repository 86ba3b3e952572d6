"""The judge of a chaos run: what was lost, came twice without a reason or went to somebody else does not pass."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import sentinel

import pytest
from chaos import store
from chaos.clients import Client
from chaos.load import Ask, Decision, Load
from chaos.people import People, Restaurant
from chaos.verdict import Inbox, judge_browsers, judge_decisions, judge_deliveries, judge_order, judge_requests

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


def test_an_answered_request_without_its_reservation_is_a_loss(load: Load) -> None:
    assert violated(judge_requests(load, [reservation()])) == set()
    assert violated(judge_requests(load, [])) == {"answered → its reservation"}


def test_a_second_reservation_for_one_request_and_one_that_nobody_asked_for_are_mistakes(load: Load) -> None:
    assert violated(judge_requests(load, [reservation(), reservation(2)])) == {"reservation → one request"}
    unasked = reservation(2, SLOT.replace(hour=21))
    assert violated(judge_requests(load, [reservation(), unasked])) == {"reservation → one request"}


def test_a_reservation_whose_answer_was_lost_is_its_requests(load: Load) -> None:
    load.asks[0].reservation = None
    assert violated(judge_requests(load, [reservation()])) == set()


def test_a_decision_that_was_answered_has_its_event_and_one_winner(load: Load) -> None:
    event = {"aggregate_id": 1, "aggregate_version": 2, "event_type": "RESERVATION_ACCEPTED"}
    assert violated(judge_decisions(load, [event])) == set()
    assert violated(judge_decisions(load, [])) == {"answered decision → its event"}
    load.decisions.append(Decision(1, 2, "RESERVATION_ACCEPTED", "restaurant_user:51"))
    assert violated(judge_decisions(load, [event])) == {"one winner of each race"}


def send(**changes: Any) -> dict[str, Any]:
    calls = {"taken": 1, "unanswered": 0, "cut_short": 0}
    person = {"user_type": "CUSTOMER", "user_id": 5, "reservation_id": 1, "aggregate_version": 1}
    return {"id": 7, "channel_type": "SMS", "is_sent": True, "outcome": "SENT", **person, **calls, **changes}


def test_what_was_sent_has_arrived_and_what_arrived_was_sent() -> None:
    assert violated(judge_deliveries([send()], [("SMS", 7)])) == set()
    assert violated(judge_deliveries([send()], [])) == {"sent → at its provider"}
    assert violated(judge_deliveries([], [("SMS", 7)])) == {"at a provider → its send"}


def test_a_second_copy_needs_a_second_call_to_explain_it() -> None:
    twice = [("SMS", 7), ("SMS", 7)]
    assert violated(judge_deliveries([send()], twice)) == {"copies → a call for each"}
    findings = judge_deliveries([send(cut_short=1)], twice)
    assert violated(findings) == set()
    (duplicates,) = (finding for finding in findings if finding.check.name == "duplicates")
    assert (duplicates.wrong, duplicates.examples) == (1, ["1 by a dispatcher killed in the middle of the call"])


def test_at_a_provider_a_persons_messages_about_a_reservation_never_go_back() -> None:
    sends = [send(), send(id=8, aggregate_version=2), send(id=9, aggregate_version=2), send(id=3, user_id=6)]
    in_order = [("SMS", 7), ("SMS", 7), ("SMS", 8), ("SMS", 9), ("SMS", 3)]
    assert not judge_order(sends, in_order).is_violation
    for late in ([("SMS", 8), ("SMS", 7)], [("SMS", 9), ("SMS", 8)]):
        assert judge_order(sends, late).is_violation


def test_a_send_that_was_given_up_is_a_loss() -> None:
    row = send(is_sent=False, outcome="EXHAUSTED")
    assert violated(judge_deliveries([row], [])) == {"no send given up"}


@pytest.fixture
def client() -> Client:
    client = Client("customer:5", ["ws://127.0.0.1:1"], sentinel.api, "secret")
    client.held = {1: False, 2: True}
    client.framed = {1}
    return client


def test_a_browser_holds_exactly_its_inbox(client: Client) -> None:
    stored = {1: False, 2: True}
    assert violated(judge_browsers([Inbox(client, frozenset(stored), stored)])) == set()
    for other in ({1: False}, {1: False, 2: False}, {1: False, 2: True, 3: False}):
        assert "browser = its inbox" in violated(judge_browsers([Inbox(client, frozenset(other), other)]))


def test_a_frame_for_somebody_else_is_noticed(client: Client) -> None:
    client.framed.add(9)
    stored = {1: False, 2: True}
    assert violated(judge_browsers([Inbox(client, frozenset(stored), stored)])) == {"no frame for somebody else"}


def test_the_store_has_one_function_per_query() -> None:
    assert all(callable(getattr(store, name, None)) for name in store.SQL)
