"""Publishes batches to the broker: the events of one aggregate one after the other, different aggregates concurrently.

Invariant: a version is published only after the previous one is confirmed, whether that one is in the same batch or
in an earlier one. A relay that has lost a partition without noticing keeps the same rule, so that the first arrival
of each version is in order even when events are published twice.

Claiming with the current token also returns successors of in-flight events. When an in-flight event is not confirmed,
the token changes at once: batches that were claimed with the old token are released unpublished, and its successors
cannot be claimed before its outcome is recorded.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import uuid4

import asyncpg

from event_relay import metrics
from event_relay.message import Unpublishable, build_message
from tablebell.outage import describe
from tablebell.outbox import NO_PAUSE, Batch, Failure
from tablebell.rabbit import Confirmed, Publisher, PublishOutcome, Rejected, Unreachable
from tablebell.retry import RetryPolicy

PREDECESSOR_OPEN = "waits for an earlier version"

Aggregate: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class BatchResult:
    """The outcome of each row of a batch."""

    confirmed: list[int] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    """The message itself is at fault: counts as an attempt."""
    released: list[Failure] = field(default_factory=list)
    """Not published for another reason, such as an outage: counts as no attempt."""
    outage: str | None = None

    def release(self, rows: Sequence[asyncpg.Record], reason: str) -> None:
        self.released += [Failure(row["id"], reason, NO_PAUSE) for row in rows]


class AggregateLane:
    """The events of one aggregate in a batch. They follow the lane of the same aggregate in an earlier batch."""

    def __init__(self, rows: Sequence[asyncpg.Record], predecessor: "AggregateLane | None") -> None:
        self.rows = rows
        self.all_confirmed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._predecessor = predecessor.all_confirmed if predecessor else None

    async def wait_for_predecessor(self) -> bool:
        """Returns whether all events of the predecessor were confirmed."""
        return self._predecessor is None or await asyncio.shield(self._predecessor)

    def finish(self, *, all_confirmed: bool) -> None:
        """Only the first call counts."""
        if not self.all_confirmed.done():
            self.all_confirmed.set_result(all_confirmed)


class OrderedPublisher:
    """Publishes through `publisher`, which knows no order.

    A batch has `timeout_seconds` from its claim; events that are not confirmed by then are released.
    """

    def __init__(self, publisher: Publisher, policy: RetryPolicy, timeout_seconds: float) -> None:
        self._publisher = publisher
        self._policy = policy
        self._timeout_seconds = timeout_seconds
        self._lanes: dict[Aggregate, AggregateLane] = {}
        """The last lane of each aggregate with events in flight."""
        self.claim_token = uuid4()

    async def publish_batch(self, batch: Batch, claimed_at: float) -> BatchResult:
        """`claimed_at` is on the monotonic clock."""
        result = BatchResult()
        if batch.token != self.claim_token:
            result.release(batch.rows, PREDECESSOR_OPEN)
            return result
        lanes = self._open_lanes(batch.rows)
        try:
            async with asyncio.timeout(max(0.0, claimed_at + self._timeout_seconds - time.monotonic())):
                await asyncio.gather(*(self._publish_lane(lane, result) for lane in lanes.values()))
        except TimeoutError:
            self.claim_token = uuid4()
            result.outage = f"no confirm from the broker within {self._timeout_seconds:.0f} s"
            known = {*result.confirmed, *(failure.id for failure in (*result.failed, *result.released))}
            result.release([row for row in batch.rows if row["id"] not in known], result.outage)
        finally:
            self._close_lanes(lanes)
        return result

    def _open_lanes(self, rows: Sequence[asyncpg.Record]) -> dict[Aggregate, AggregateLane]:
        events: dict[Aggregate, list[asyncpg.Record]] = {}
        for row in rows:
            events.setdefault((row["aggregate_type"], row["aggregate_id"]), []).append(row)
        lanes = {aggregate: AggregateLane(each, self._lanes.get(aggregate)) for aggregate, each in events.items()}
        self._lanes |= lanes
        return lanes

    def _close_lanes(self, lanes: dict[Aggregate, AggregateLane]) -> None:
        for aggregate, lane in lanes.items():
            lane.finish(all_confirmed=False)
            if self._lanes.get(aggregate) is lane:  # a later batch may have replaced it
                del self._lanes[aggregate]

    async def _publish_lane(self, lane: AggregateLane, result: BatchResult) -> None:
        if await lane.wait_for_predecessor():
            lane.finish(all_confirmed=await self._publish_in_order(lane.rows, result))
        else:
            result.release(lane.rows, PREDECESSOR_OPEN)

    async def _publish_in_order(self, rows: Sequence[asyncpg.Record], result: BatchResult) -> bool:
        """Stops at the first event that is not confirmed. Returns whether all were confirmed."""
        for index, row in enumerate(rows):
            match await self._publish(row):
                case Confirmed():
                    result.confirmed.append(row["id"])
                case Rejected(reason):
                    self.claim_token = uuid4()
                    result.failed.append(Failure(row["id"], reason, self._policy.pause_after(row["retry_count"] + 1)))
                    successors = rows[index + 1 :]
                    result.release(successors, f"waits for version {row['aggregate_version']}, which failed: {reason}")
                    return False
                case Unreachable(reason):
                    self.claim_token = uuid4()
                    result.outage = reason
                    result.release(rows[index:], reason)
                    return False
        return True

    async def _publish(self, row: asyncpg.Record) -> PublishOutcome:
        try:
            message = build_message(row)
        except Unpublishable as error:
            return Rejected(f"unpublishable: {error}")
        except Exception as error:  # noqa: BLE001 - an unexpected row must not stop the others
            return Rejected(f"unpublishable: {describe(error)}")
        began = time.monotonic()
        try:
            outcome = await self._publisher.publish(message)
        except Exception as error:  # noqa: BLE001 - the client library may be unable to encode the message
            return Rejected(f"unpublishable: {describe(error)}")
        metrics.CONFIRM_SECONDS.observe(time.monotonic() - began)
        return outcome
