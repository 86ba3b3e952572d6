"""How long the rows of an outbox are kept after they are done, or dead."""

from datetime import timedelta

from tablebell.outbox.table import OutboxTable
from tablebell.purging import Retention


def outbox_retentions(outbox: OutboxTable, *, done: timedelta, dead: timedelta) -> list[Retention]:
    return [
        Retention(outbox.level, done, outbox.purge_done),
        Retention(f"{outbox.level}_dead", dead, outbox.purge_dead),
    ]
