"""The outbox: one engine for L0, L1 and L2."""

from tablebell.outbox.outbox import CLAIMING, START, Batch, Count, CountDone, Failure, Level, Outbox, Position
from tablebell.outbox.withdrawal import withdraw_channel_sends

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
    "withdraw_channel_sends",
]
