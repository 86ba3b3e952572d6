"""The expander: turns L1 rows into L2 rows and live frames.

Invariants:
- One transaction per batch: claim, write L2, emit the frames, complete L1. A crash undoes everything except the frames,
  which are emitted again. It leaves no lease behind.
- The durable channels do not depend on RabbitMQ: frames that it does not confirm are stored in the transaction.
- Expanding a row again changes nothing in L2.
- A row that cannot be expanded fails alone: after an error the batch is repeated row by row, each in a savepoint. A row
  that cannot be claimed, or whose failure cannot be recorded, is buried with the reason.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import structlog

from notification_fanout import notifications, store
from notification_fanout.channel_sends import RendererCache, SharedMessages, channel_sends
from notification_fanout.channels import wants_live
from notification_fanout.contact import RestaurantContact
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.metrics import CHANNEL_SENDS, EXPANDED, EXPANSION, LIMITED
from notification_fanout.recipient_limits import RecipientLimits, SendWindow, apply_limits, count_limited
from tablebell.frames import AddressedFrame, address, addressed
from tablebell.outage import describe, raise_if_outage
from tablebell.outbox import Batch, Failure, Level, OutboxQueue, bury_alone, claim_one_by_one
from tablebell.partitions import Partitions
from tablebell.people import Audience
from tablebell.postgres import Connection, Pool
from tablebell.retry import RetryPolicy
from tablebell.tracing import link, spanned
from tablebell.wakeups import WakeupSender

log = structlog.get_logger(__name__)

Rows: TypeAlias = Sequence[asyncpg.Record]
Written: TypeAlias = Sequence[asyncpg.Record]
Claim: TypeAlias = Callable[..., Awaitable[Batch]]
Expand: TypeAlias = Callable[[Connection, Rows, UUID], Awaitable[Written]]

NO_PAUSE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Expansion:
    """The result of a batch, before L1 is completed."""

    frames: list[AddressedFrame]
    written: Written
    orphans: list[int]
    """L1 rows whose notification or recipient no longer exists."""


class Expander:
    def __init__(
        self,
        pool: Pool,
        frame_publisher: FramePublisher,
        wakeup_sender: WakeupSender,
        partitions: Partitions,
        *,
        batch_size: int,
        lease: timedelta,
        retry: RetryPolicy,
        limits: RecipientLimits,
        linger_seconds: float = 0.0,
    ) -> None:
        self._pool = pool
        self._frame_publisher = frame_publisher
        self._wakeup_sender = wakeup_sender
        self._partitions = partitions
        self._batch_size = batch_size
        self._lease = lease
        self._retry = retry
        self._limits = limits
        self._linger_seconds = linger_seconds
        self._outbox = OutboxQueue(Level.NOTIFICATION)

    async def run_once(self) -> bool:
        """Expand one batch; return True if more rows may be due.

        The linger collects the rows of all four listeners, which receive an event within milliseconds of each other:
        one batch costs a quarter of four.
        """
        if self._linger_seconds:
            await asyncio.sleep(self._linger_seconds)
        with self._partitions.use() as owned:
            return await self._run_once(sorted(owned)) if owned else False

    async def _run_once(self, partitions: Sequence[int]) -> bool:
        began = time.monotonic()
        try:
            written, more = await self._expand_batch(partitions, self._outbox.claim, self._expand_and_complete)
        except Exception as error:
            raise_if_outage(error)
            log.exception("expansion_failed")
            claim = partial(claim_one_by_one, self._outbox)
            written, more = await self._expand_batch(partitions, claim, self._expand_one_by_one)
        if any(row["outcome"] == "OPEN" for row in written):
            self._wakeup_sender.announce(Level.CHANNEL_SEND)
        for row in written:
            CHANNEL_SENDS.labels(row["channel_type"], row["outcome"]).inc()
        if written:
            EXPANSION.observe(time.monotonic() - began)
        return more

    async def _expand_batch(self, partitions: Sequence[int], claim: Claim, expand: Expand) -> tuple[Written, bool]:
        async with self._pool.acquire() as connection, connection.transaction():
            batch = await claim(connection, partitions, limit=self._batch_size, lease=self._lease)
            written = await expand(connection, batch.rows, batch.token) if batch.rows else []
        return written, batch.more

    async def _expand_one_by_one(self, connection: Connection, rows: Rows, token: UUID) -> Written:
        written: list[asyncpg.Record] = []
        for row in rows:
            try:
                async with connection.transaction():
                    written += await self._expand_and_complete(connection, [row], token)
            except Exception as error:
                raise_if_outage(error)
                log.exception("row_not_expanded", outbox_id=row["id"], notification_id=row["notification_id"])
                await self._fail(connection, row, token, describe(error))
        return written

    async def _expand_and_complete(self, connection: Connection, rows: Rows, token: UUID) -> Written:
        with spanned("expand", {}):
            expansion = await self._expand(connection, rows)
            await self._frame_publisher.emit(connection, expansion.frames)
        done = [row["id"] for row in rows if row["id"] not in set(expansion.orphans)]
        await self._outbox.complete_if_leased(connection, done, token)
        EXPANDED.labels("PUBLISHED").inc(len(done))
        if expansion.orphans:
            failures = [
                Failure(identity, "the notification or its recipient no longer exists", NO_PAUSE)
                for identity in expansion.orphans
            ]
            await self._outbox.bury_if_leased(connection, failures, token)
            EXPANDED.labels("DEAD").inc(len(failures))
        return expansion.written

    async def _fail(self, connection: Connection, row: asyncpg.Record, token: UUID, error: str) -> None:
        failure = Failure(row["id"], error, self._retry.pause_after(row["retry_count"] + 1))
        try:
            async with connection.transaction():
                statuses = await self._outbox.fail_if_leased(connection, [failure], token, self._retry.max_attempts)
        except Exception as recording_error:
            raise_if_outage(recording_error)
            log.exception("failure_not_recorded", outbox_id=row["id"])
            buried = await bury_alone(self._outbox, connection, failure, token=token)
            statuses = {row["id"]: "DEAD"} if buried else {}
        for status in statuses.values():
            EXPANDED.labels(status).inc()

    async def _expand(self, connection: Connection, rows: Rows) -> Expansion:
        ids = [row["notification_id"] for row in rows]
        user_types = [Audience(row["notification_type"]).user_type for row in rows]
        locked = await store.lock_events(connection, ids, user_types)
        states = {row["id"]: row for row in await store.find_resolutions(connection, [row["id"] for row in locked])}
        restaurants = await store.find_restaurants(connection, [row["restaurant_id"] for row in locked])
        contacts = {row["id"]: notifications.restaurant_contact(row) for row in restaurants}
        events = {
            row["id"]: notifications.event_notification(
                row, states.get(row["id"]), contacts.get(row["restaurant_id"], RestaurantContact())
            )
            for row in locked
        }
        link(event.headers for event in events.values())
        found = {row["id"]: row for row in await store.find_recipients(connection, ids, user_types)}

        renderers, shared = RendererCache(), SharedMessages()
        frames: list[AddressedFrame] = []
        sends: list[dict[str, Any]] = []
        for row in (found[identity] for identity in ids if identity in found):
            event, recipient = events[row["event_notification_id"]], notifications.recipient(row)
            sends += channel_sends(row, recipient, event, renderers, shared)
            if wants_live(recipient, event.event_type) and notifications.access_lost_because(row, event) is None:
                to = address(row["user_type"], row["user_id"])
                frames.append(addressed(notifications.frame(row, event), [to]))
        await self._limit(connection, sends)
        written = await store.append_channel_sends(connection, sends) if sends else []
        orphans = [row["id"] for row in rows if row["notification_id"] not in found]
        return Expansion(frames, written, orphans)

    async def _limit(self, connection: Connection, sends: Sequence[dict[str, Any]]) -> None:
        recipients = count_limited(sends, self._limits)
        if not recipients:
            return
        await store.lock_recipients(connection, recipients)
        rows = await store.find_due_times(connection, recipients)
        windows = {
            recipient: SendWindow(recipient.limit, messages, row["times"])
            for (recipient, messages), row in zip(recipients.items(), rows, strict=True)
        }
        LIMITED.inc(apply_limits(sends, self._limits, windows, rows[0]["now"]))
