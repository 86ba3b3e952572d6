from typing import Any

import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.fault_board import FaultBoard, FaultEffect
from tablebell_sandbox.faults import HttpStatus, parse_faults


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def board_with(*faults: dict[str, Any], clock: Clock | None = None, chances: list[float] | None = None) -> FaultBoard:
    draws = iter(chances or [])
    board = FaultBoard(chance=lambda: next(draws), clock=clock or Clock())
    board.set(Channel.SMS, parse_faults(Channel.SMS, faults))
    return board


def statuses(board: FaultBoard, times: int, to: str = "+39") -> list[int | None]:
    faults = [board.take(Channel.SMS, (to,)).fault for _ in range(times)]
    return [fault.status if isinstance(fault, HttpStatus) else None for fault in faults]


def test_without_a_measure_it_strikes_always() -> None:
    assert statuses(board_with({"kind": "http", "status": 500}), 3) == [500, 500, 500]


def test_a_count_strikes_the_next_n() -> None:
    assert statuses(board_with({"kind": "http", "status": 500, "count": 2}), 3) == [500, 500, None]


def test_a_probability_strikes_when_the_draw_is_below_it() -> None:
    board = board_with({"kind": "http", "status": 500, "probability": 0.5}, chances=[0.1, 0.5, 0.49, 0.9])
    assert statuses(board, 4) == [500, None, 500, None]


@pytest.mark.parametrize(("probability", "expected"), [(0, [None] * 3), (1, [500] * 3)])
def test_never_and_always_are_probabilities_too(probability: float, expected: list[int | None]) -> None:
    board = board_with({"kind": "http", "status": 500, "probability": probability}, chances=[0.0, 0.5, 0.999])
    assert statuses(board, 3) == expected


def test_a_match_leaves_others_alone_and_uses_nothing_up() -> None:
    board = board_with({"kind": "http", "status": 500, "count": 1, "match": "333"})
    assert statuses(board, 2, to="+39444") == [None, None]
    assert statuses(board, 2, to="+39333") == [500, None]


def test_it_ends_by_itself() -> None:
    clock = Clock()
    board = board_with(
        {"kind": "http", "status": 500, "for_seconds": 10}, {"kind": "refuse", "for_seconds": 5}, clock=clock
    )
    clock.now += 4.9
    assert statuses(board, 1) == [500]
    assert board.outage(Channel.SMS) is not None
    clock.now += 0.2
    assert board.outage(Channel.SMS) is None
    clock.now += 5
    assert statuses(board, 1) == [None]
    assert board.describe(Channel.SMS) == []


def test_delays_add_up_and_the_first_error_decides() -> None:
    board = board_with(
        {"kind": "delay", "seconds": 1},
        {"kind": "delay", "seconds": 2, "count": 1},
        {"kind": "http", "status": 503, "count": 1},
        {"kind": "http", "status": 429, "count": 1},
    )
    verdicts = [board.take(Channel.SMS, ("+39",)) for _ in range(3)]

    assert [verdict.delay for verdict in verdicts] == [3, 1, 1]
    assert [fault.status if isinstance(fault := verdict.fault, HttpStatus) else None for verdict in verdicts] == [
        503,
        429,
        None,
    ]


def test_the_longest_outage_counts_and_one_without_an_end_is_the_longest() -> None:
    board = board_with({"kind": "refuse", "for_seconds": 5}, {"kind": "refuse"}, {"kind": "refuse", "for_seconds": 9})
    outage = board.outage(Channel.SMS)
    assert outage is not None
    assert outage.for_seconds is None


def test_a_stage_is_struck_only_by_its_own_faults() -> None:
    board = FaultBoard()
    board.set(Channel.EMAIL, parse_faults(Channel.EMAIL, [{"kind": "smtp", "code": 550, "at": "rcpt"}]))
    assert board.take(Channel.EMAIL, ("a@b",)) == FaultEffect()
    assert board.take(Channel.EMAIL, ("a@b",), "rcpt").fault is not None


def test_faults_of_one_channel_are_not_those_of_another() -> None:
    board = board_with({"kind": "http", "status": 500})
    assert board.take(Channel.SLACK, ("x",)) == FaultEffect()
