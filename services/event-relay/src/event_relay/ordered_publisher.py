"""Carries batches to the broker: one aggregate's events strictly one after the other, the aggregates side by side.

The next version is published only when the one before is confirmed, be it of this batch or of the one before. Whoever
else may publish the same events at that time (a relay that does not know yet that it lost a partition) keeps to the
same rule, so that the first arrival of each version is in order, whatever is sent twice.

Who claims with the courier's token is given what follows the events that are on their way. When one of those turns out
not to have gone, the token changes at that moment: what was claimed on the strength of it is put back, and what follows
it is nobody's until its outcome is on record.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias
from uuid import uuid4

import asyncpg

from event_relay import metrics
from event_relay.message import Unpublishable, compose
from tablebell.outage import describe
from tablebell.outbox import Batch, Failure
from tablebell.rabbit import Confirmed, Publisher, PublishOutcome, Rejected, Unreachable
from tablebell.retry import RetryPolicy

AT_ONCE = timedelta(0)

Aggregate: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class BatchResult:
    """What became of the rows of a batch."""

    confirmed: list[int] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    """Through a fault of their own: an attempt is counted."""
    put_back: list[Failure] = field(default_factory=list)
    """Not through a fault of their own."""
    outage: str | None = None


class AggregateLane:
    """A batch's events of one aggregate, which stand behind those of the batch before."""

    def __init__(self, rows: Sequence[asyncpg.Record], before: "AggregateLane | None") -> None:
        self.rows = rows
        self.is_clear: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._before = before.is_clear if before else None

    async def is_next(self) -> bool:
        """Whether everything before was confirmed, as soon as that is known."""
        return self._before is None or await asyncio.shield(self._before)

    def end(self, *, clear: bool) -> None:
        if not self.is_clear.done():
            self.is_clear.set_result(clear)


class OrderedPublisher:
    """`seconds` is how long after its claim a batch may take: what is not confirmed by then is put back in time."""

    def __init__(self, publisher: Publisher, policy: RetryPolicy, seconds: float) -> None:
        self._publisher = publisher
        self._policy = policy
        self._seconds = seconds
        self._lines: dict[Aggregate, AggregateLane] = {}
        self.token = uuid4()

    async def deliver(self, batch: Batch, claimed_at: float) -> BatchResult:
        """`claimed_at` is on the monotonic clock."""
        report, rows = BatchResult(), batch.rows
        if batch.token != self.token:
            report.put_back += [Failure(row["id"], "waits for an earlier version", AT_ONCE) for row in rows]
            return report
        events: dict[Aggregate, list[asyncpg.Record]] = {}
        for row in rows:
            events.setdefault((row["aggregate_type"], row["aggregate_id"]), []).append(row)
        lines = {aggregate: AggregateLane(each, self._lines.get(aggregate)) for aggregate, each in events.items()}
        self._lines |= lines
        try:
            async with asyncio.timeout(max(0.0, claimed_at + self._seconds - time.monotonic())):
                await asyncio.gather(*(self._deliver_line(line, report) for line in lines.values()))
        except TimeoutError:
            self.token = uuid4()
            report.outage = f"no confirm from the broker within {self._seconds:.0f} s"
            known = {*report.confirmed, *(failure.id for failure in (*report.failed, *report.put_back))}
            unknown = (row["id"] for row in rows if row["id"] not in known)
            report.put_back += [Failure(row_id, report.outage, AT_ONCE) for row_id in unknown]
        finally:
            for aggregate, line in lines.items():
                line.end(clear=False)
                if self._lines.get(aggregate) is line:  # else a later batch stands behind it, or has come and gone
                    del self._lines[aggregate]
        return report

    async def _deliver_line(self, line: AggregateLane, report: BatchResult) -> None:
        if await line.is_next():
            line.end(clear=await self._deliver_in_order(line.rows, report))
        else:
            report.put_back += [Failure(row["id"], "waits for an earlier version", AT_ONCE) for row in line.rows]

    async def _deliver_in_order(self, rows: Sequence[asyncpg.Record], report: BatchResult) -> bool:
        """Whether all of them were confirmed."""
        for number, row in enumerate(rows):
            match await self._publish(row):
                case Confirmed():
                    report.confirmed.append(row["id"])
                case Rejected(reason):
                    self.token = uuid4()
                    report.failed.append(Failure(row["id"], reason, self._policy.pause_after(row["retry_count"] + 1)))
                    waits = f"waits for version {row['aggregate_version']}, which failed: {reason}"
                    report.put_back += [Failure(later["id"], waits, AT_ONCE) for later in rows[number + 1 :]]
                    return False
                case Unreachable(reason):
                    self.token = uuid4()
                    report.outage = reason
                    report.put_back += [Failure(rest["id"], reason, AT_ONCE) for rest in rows[number:]]
                    return False
        return True

    async def _publish(self, row: asyncpg.Record) -> PublishOutcome:
        try:
            message = compose(row)
        except Unpublishable as error:
            return Rejected(f"unpublishable: {error}")
        except Exception as error:  # noqa: BLE001 - a row that nobody foresaw must not stop all the others
            return Rejected(f"unpublishable: {describe(error)}")
        began = time.monotonic()
        try:
            outcome = await self._publisher.publish(message)
        except Exception as error:  # noqa: BLE001 - nor must a message that the client library cannot encode
            return Rejected(f"unpublishable: {describe(error)}")
        metrics.CONFIRM_SECONDS.observe(time.monotonic() - began)
        return outcome
