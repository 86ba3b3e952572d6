"""The outbox tables: OutboxQueue claims and settles rows on L0 and L1, OutboxTable operates on all three levels."""

from tablebell.outbox.gauges import OutboxGauges
from tablebell.outbox.isolation import bury_alone, claim_one_by_one
from tablebell.outbox.queue import CLAIM_PLANNER_SETTINGS, Batch, OutboxQueue
from tablebell.outbox.retention import outbox_retentions
from tablebell.outbox.table import NO_PAUSE, START, Count, CountDone, Delay, Failure, Level, OutboxTable, Position
from tablebell.outbox.withdrawal import withdraw_channel_sends

__all__ = [
    "CLAIM_PLANNER_SETTINGS",
    "NO_PAUSE",
    "START",
    "Batch",
    "Count",
    "CountDone",
    "Delay",
    "Failure",
    "Level",
    "OutboxGauges",
    "OutboxQueue",
    "OutboxTable",
    "Position",
    "bury_alone",
    "claim_one_by_one",
    "outbox_retentions",
    "withdraw_channel_sends",
]
