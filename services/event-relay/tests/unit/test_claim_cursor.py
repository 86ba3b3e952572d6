"""When the cursor advances, and when it moves back."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from event_relay.claim_cursor import COMMIT_SKEW, ClaimCursor
from tablebell.outbox import START, Batch, Position

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def row(row_id: int, aggregate: int) -> Any:
    due = NOON + timedelta(milliseconds=row_id)
    return {"id": row_id, "due": due, "aggregate_type": "reservation", "aggregate_id": aggregate}


def position(row_id: int) -> Position:
    return Position(NOON + timedelta(milliseconds=row_id), row_id)


def batch(rows: list[Any], blocked: list[Any] | None = None, *, more: bool = True) -> Batch:
    last = max(each["id"] for each in [*rows, *(blocked or [])])
    return Batch(uuid4(), rows, position(last), more, blocked or [])


def claim(cursor: ClaimCursor, claimed: Batch) -> bool:
    cursor.begin_claim()
    return cursor.end_claim(claimed)


def test_while_there_is_more_the_next_claim_continues_where_the_last_one_ended() -> None:
    cursor = ClaimCursor()
    assert not claim(cursor, batch([row(1, 1), row(2, 2)]))
    assert cursor.position == position(2)


def test_at_the_end_the_next_claim_scans_back_for_late_commits() -> None:
    cursor = ClaimCursor()
    claim(cursor, batch([row(1, 1)], more=False))
    assert cursor.position == Position(position(1).due - COMMIT_SKEW, 0)


def test_an_empty_table_leaves_the_cursor_at_its_start() -> None:
    cursor = ClaimCursor()
    cursor.begin_claim()
    assert not cursor.end_claim(Batch(uuid4(), [], START, more=False))
    assert cursor.position == START


def test_the_cursor_moves_back_to_a_blocked_event_when_its_predecessor_is_settled() -> None:
    cursor = ClaimCursor()
    first = batch([row(1, 1), row(2, 2)])
    claim(cursor, first)
    claim(cursor, batch([row(4, 4)], blocked=[row(3, 1)]))
    assert cursor.position == position(4)
    assert cursor.settle(first.rows, all_confirmed=True)
    assert cursor.position < position(3)


def test_a_predecessor_settled_during_a_claim_unblocks_the_events_of_that_claim() -> None:
    cursor = ClaimCursor()
    first = batch([row(1, 1)])
    claim(cursor, first)
    cursor.begin_claim()
    assert not cursor.settle(first.rows, all_confirmed=True)
    assert cursor.end_claim(batch([row(4, 4)], blocked=[row(3, 1)]))
    assert cursor.position < position(3)


def test_the_cursor_moves_back_to_an_event_released_during_a_claim() -> None:
    cursor = ClaimCursor()
    first = batch([row(1, 1)])
    claim(cursor, first)
    cursor.begin_claim()
    assert cursor.settle(first.rows, all_confirmed=False)
    assert cursor.end_claim(batch([row(4, 4)]))
    assert cursor.position < position(1)


def test_a_settled_event_without_successors_does_not_move_the_cursor() -> None:
    cursor = ClaimCursor()
    first = batch([row(1, 1)])
    claim(cursor, first)
    claim(cursor, batch([row(3, 3)], blocked=[row(2, 2)]))
    assert not cursor.settle(first.rows, all_confirmed=True)
    assert cursor.position == position(3)
