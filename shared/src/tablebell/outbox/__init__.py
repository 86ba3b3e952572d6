"""The outbox: one engine for L0, L1 and L2."""

from tablebell.outbox.isolation import NO_PAUSE, StatementRefused, blame_row, bury_alone, claim_one_by_one
from tablebell.outbox.outbox import (
    CLAIM_PLANNER_SETTINGS,
    START,
    Batch,
    Count,
    CountDone,
    Failure,
    Level,
    Outbox,
    Position,
)
from tablebell.outbox.withdrawal import withdraw_channel_sends

__all__ = [
    "CLAIM_PLANNER_SETTINGS",
    "NO_PAUSE",
    "START",
    "Batch",
    "Count",
    "CountDone",
    "Failure",
    "Level",
    "Outbox",
    "Position",
    "StatementRefused",
    "blame_row",
    "bury_alone",
    "claim_one_by_one",
    "withdraw_channel_sends",
]
