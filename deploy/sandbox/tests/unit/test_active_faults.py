from typing import Any

import pytest

from tablebell_sandbox.active_faults import ActiveFaults, FaultEffect
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import HttpStatus, parse_faults


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def with_faults(
    *faults: dict[str, Any], clock: Clock | None = None, chances: list[float] | None = None
) -> ActiveFaults:
    draws = iter(chances or [])
    active_faults = ActiveFaults(chance=lambda: next(draws), clock=clock or Clock())
    active_faults.set(Channel.SMS, parse_faults(Channel.SMS, faults))
    return active_faults


def statuses(active_faults: ActiveFaults, times: int, to: str = "+39") -> list[int | None]:
    faults = [active_faults.take(Channel.SMS, (to,)).fault for _ in range(times)]
    return [fault.status if isinstance(fault, HttpStatus) else None for fault in faults]


def test_a_fault_without_a_limit_applies_always() -> None:
    assert statuses(with_faults({"kind": "http", "status": 500}), 3) == [500, 500, 500]


def test_a_count_applies_to_the_next_n_messages() -> None:
    assert statuses(with_faults({"kind": "http", "status": 500, "count": 2}), 3) == [500, 500, None]


def test_a_probability_applies_when_the_draw_is_below_it() -> None:
    active_faults = with_faults({"kind": "http", "status": 500, "probability": 0.5}, chances=[0.1, 0.5, 0.49, 0.9])
    assert statuses(active_faults, 4) == [500, None, 500, None]


@pytest.mark.parametrize(("probability", "expected"), [(0, [None] * 3), (1, [500] * 3)])
def test_probabilities_0_and_1_mean_never_and_always(probability: float, expected: list[int | None]) -> None:
    active_faults = with_faults({"kind": "http", "status": 500, "probability": probability}, chances=[0.0, 0.5, 0.999])
    assert statuses(active_faults, 3) == expected


def test_a_match_ignores_other_recipients_without_using_up_its_count() -> None:
    active_faults = with_faults({"kind": "http", "status": 500, "count": 1, "match": "333"})
    assert statuses(active_faults, 2, to="+39444") == [None, None]
    assert statuses(active_faults, 2, to="+39333") == [500, None]


def test_a_fault_ends_after_its_duration() -> None:
    clock = Clock()
    active_faults = with_faults(
        {"kind": "http", "status": 500, "for_seconds": 10}, {"kind": "refuse", "for_seconds": 5}, clock=clock
    )
    clock.now += 4.9
    assert statuses(active_faults, 1) == [500]
    assert active_faults.outage(Channel.SMS) is not None
    clock.now += 0.2
    assert active_faults.outage(Channel.SMS) is None
    clock.now += 5
    assert statuses(active_faults, 1) == [None]
    assert active_faults.describe(Channel.SMS) == []


def test_delays_add_up_and_the_first_error_decides() -> None:
    active_faults = with_faults(
        {"kind": "delay", "seconds": 1},
        {"kind": "delay", "seconds": 2, "count": 1},
        {"kind": "http", "status": 503, "count": 1},
        {"kind": "http", "status": 429, "count": 1},
    )
    effects = [active_faults.take(Channel.SMS, ("+39",)) for _ in range(3)]

    assert [effect.delay for effect in effects] == [3, 1, 1]
    assert [fault.status if isinstance(fault := effect.fault, HttpStatus) else None for effect in effects] == [
        503,
        429,
        None,
    ]


def test_the_longest_outage_decides_and_one_without_an_end_is_the_longest() -> None:
    active_faults = with_faults(
        {"kind": "refuse", "for_seconds": 5}, {"kind": "refuse"}, {"kind": "refuse", "for_seconds": 9}
    )
    outage = active_faults.outage(Channel.SMS)
    assert outage is not None
    assert outage.for_seconds is None


def test_a_fault_applies_only_at_its_stage() -> None:
    active_faults = ActiveFaults()
    active_faults.set(Channel.EMAIL, parse_faults(Channel.EMAIL, [{"kind": "smtp", "code": 550, "at": "rcpt"}]))
    assert active_faults.take(Channel.EMAIL, ("a@b",)) == FaultEffect()
    assert active_faults.take(Channel.EMAIL, ("a@b",), "rcpt").fault is not None


def test_faults_apply_only_to_their_channel() -> None:
    active_faults = with_faults({"kind": "http", "status": 500})
    assert active_faults.take(Channel.SLACK, ("x",)) == FaultEffect()
