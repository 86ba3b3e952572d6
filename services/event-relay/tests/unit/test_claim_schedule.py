"""When the relay claims, checks for due events and pauses."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from event_relay.claim_schedule import LONGEST_PAUSE, RECHECK_SECONDS, ClaimSchedule
from event_relay.ordered_publisher import BatchResult
from event_relay.store import NextDue
from tablebell.outbox import START, Batch, Position

POLL = 5.0
ALL = frozenset(range(16))
HALF = frozenset(range(8))
REACHED = Position(datetime(2026, 11, 20, 12, tzinfo=UTC), 7)
NOTHING_DUE = NextDue(is_due=False, seconds_until_next=None)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def schedule(clock: Clock) -> ClaimSchedule:
    """Has just checked the table and found nothing due."""
    schedule = ClaimSchedule(POLL, clock)
    schedule.set_partitions(ALL)
    assert schedule.needs_check()
    check(schedule, NOTHING_DUE)
    return schedule


def check(schedule: ClaimSchedule, found: NextDue) -> Position:
    after = schedule.begin_check()
    schedule.end_check(found)
    return after


def claim(schedule: ClaimSchedule) -> Position:
    after = schedule.begin_claim()
    schedule.end_claim(Batch(uuid4(), [], REACHED, more=True))
    return after


def settle(schedule: ClaimSchedule, outage: str | None) -> bool:
    return schedule.settle(Batch(uuid4(), [], REACHED, more=False), BatchResult(outage=outage))


def test_an_idle_relay_waits_for_the_poll(schedule: ClaimSchedule) -> None:
    assert schedule.wait_seconds == POLL


def test_a_wake_up_leads_to_a_claim_without_a_check_and_to_a_check_soon_after(
    schedule: ClaimSchedule, clock: Clock
) -> None:
    clock.now += 1
    assert not schedule.needs_check()
    assert schedule.wait_seconds == RECHECK_SECONDS
    clock.now += RECHECK_SECONDS
    assert schedule.needs_check()
    check(schedule, NOTHING_DUE)
    assert schedule.wait_seconds == POLL - 1 - RECHECK_SECONDS


def test_repeated_wake_ups_do_not_postpone_the_check(schedule: ClaimSchedule, clock: Clock) -> None:
    assert not schedule.needs_check()
    clock.now += RECHECK_SECONDS / 2
    assert not schedule.needs_check()
    assert schedule.wait_seconds == RECHECK_SECONDS / 2


def test_a_planned_event_ends_the_wait_when_it_is_due(schedule: ClaimSchedule, clock: Clock) -> None:
    check(schedule, NextDue(is_due=False, seconds_until_next=2.0))
    assert schedule.wait_seconds == 2.0
    clock.now += 2
    assert schedule.needs_check()


def test_a_planned_event_after_the_poll_does_not_postpone_the_poll(schedule: ClaimSchedule) -> None:
    check(schedule, NextDue(is_due=False, seconds_until_next=3600.0))
    assert schedule.wait_seconds == POLL


def test_the_time_of_a_planned_event_counts_from_the_start_of_the_check(schedule: ClaimSchedule, clock: Clock) -> None:
    schedule.begin_check()
    clock.now += 0.5
    schedule.end_check(NextDue(is_due=False, seconds_until_next=2.0))
    assert schedule.wait_seconds == 1.5


def test_a_failed_check_is_followed_by_a_claim(schedule: ClaimSchedule, clock: Clock) -> None:
    clock.now += POLL
    assert schedule.needs_check()
    schedule.begin_check()  # the query fails: `end_check` is not called
    assert not schedule.needs_check()


def test_claims_continue_between_polls_and_restart_at_a_poll(schedule: ClaimSchedule, clock: Clock) -> None:
    assert claim(schedule) == START
    assert claim(schedule) == REACHED
    assert check(schedule, NOTHING_DUE) == REACHED
    clock.now += POLL
    assert check(schedule, NOTHING_DUE) == START
    assert claim(schedule) == START


def test_a_gained_partition_restarts_the_claims_and_a_lost_one_does_not(schedule: ClaimSchedule) -> None:
    claim(schedule)
    schedule.set_partitions(HALF)
    assert claim(schedule) == REACHED
    schedule.set_partitions(ALL)
    assert claim(schedule) == START


def test_a_relay_without_partitions_waits_for_the_poll_whatever_wakes_it(schedule: ClaimSchedule, clock: Clock) -> None:
    schedule.set_partitions(frozenset())
    clock.now += 1
    assert schedule.needs_check()
    schedule.begin_check()
    assert schedule.wait_seconds == POLL - 1


def test_pauses_grow_with_each_outage_up_to_a_limit_and_a_success_resets_them(
    schedule: ClaimSchedule, clock: Clock
) -> None:
    pauses = []
    for _ in range(7):
        settle(schedule, outage="unreachable")
        pauses.append(schedule.pause_seconds)
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, LONGEST_PAUSE, LONGEST_PAUSE])
    clock.now += LONGEST_PAUSE
    assert schedule.pause_seconds <= 0
    settle(schedule, outage=None)
    settle(schedule, outage="unreachable")
    assert schedule.pause_seconds == pytest.approx(0.2)


def test_a_full_batch_is_followed_by_a_claim_at_once(schedule: ClaimSchedule) -> None:
    assert schedule.settle(Batch(uuid4(), [], REACHED, more=True), BatchResult())
    assert not settle(schedule, outage=None)
