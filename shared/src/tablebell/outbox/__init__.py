"""The outbox: one engine for L0, L1 and L2."""

from tablebell.outbox.isolation import blame_row, bury_alone, claim_one_by_one
from tablebell.outbox.outbox import CLAIMING, START, Batch, Count, CountDone, Failure, Level, Outbox, Position

__all__ = [
    "CLAIMING",
    "START",
    "Batch",
    "Count",
    "CountDone",
    "Failure",
    "Level",
    "Outbox",
    "Position",
    "blame_row",
    "bury_alone",
    "claim_one_by_one",
]
