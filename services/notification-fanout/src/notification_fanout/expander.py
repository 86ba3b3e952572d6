"""The expander: L1 becomes L2 and live frames.

One transaction per batch: claim, lock, look up, write L2, emit the frames, complete L1, commit. A crash anywhere undoes
all but the frames, which come again with the rest; so a dead expander leaves no lease to wait for.

The frames are emitted before the commit, but the durable channels do not depend on them: frames that RabbitMQ does not
take are stored in the same transaction (live.py). Expanding a row again changes nothing in L2.

A row that cannot be expanded fails alone: after an error the batch is undone and done again row by row, each in a
savepoint. A row that cannot be claimed, or whose failure cannot be recorded, is buried with the reason.
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
from notification_fanout.audience import channels_for
from notification_fanout.channels import DeliveryContext, Reader, Send, plan, wants_live
from notification_fanout.expiry import is_urgent, not_after
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.language import language_of
from notification_fanout.metrics import CHANNEL_SENDS, EXPANDED, EXPANSION
from notification_fanout.notifications import EventNotification
from notification_fanout.render import Wording
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
    """What a batch came to, before L1 is told."""

    frames: list[AddressedFrame]
    written: Written
    orphans: list[int]
    """L1 rows whose notification or person is gone."""


class Expander:
    def __init__(
        self,
        pool: Pool,
        live: FramePublisher,
        wakeup_sender: WakeupSender,
        partitions: Partitions,
        *,
        batch_size: int,
        lease: timedelta,
        retry: RetryPolicy,
        linger_seconds: float = 0.0,
    ) -> None:
        self._pool = pool
        self._live = live
        self._announcer = wakeup_sender
        self._partitions = partitions
        self._batch_size = batch_size
        self._lease = lease
        self._retry = retry
        self._linger_seconds = linger_seconds
        self._outbox = OutboxQueue(Level.NOTIFICATION)

    async def run_once(self) -> bool:
        """One batch; True when there may be more at once.

        It lingers first: the four listeners hear of an event within milliseconds, and one batch for all that they
        make of it costs a quarter of four.
        """
        if self._linger_seconds:
            await asyncio.sleep(self._linger_seconds)
        with self._partitions.use() as owned:
            return await self._run_once(sorted(owned)) if owned else False

    async def _run_once(self, partitions: Sequence[int]) -> bool:
        began = time.monotonic()
        try:
            written, more = await self._expand_batch(partitions, self._outbox.claim, self._expand_and_settle)
        except Exception as error:
            raise_if_outage(error)
            log.exception("expansion_failed")
            claim = partial(claim_one_by_one, self._outbox)
            written, more = await self._expand_batch(partitions, claim, self._expand_one_by_one)
        if any(row["outcome"] == "OPEN" for row in written):
            self._announcer.announce(Level.CHANNEL_SEND)
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
                    written += await self._expand_and_settle(connection, [row], token)
            except Exception as error:
                raise_if_outage(error)
                log.exception("row_not_expanded", outbox_id=row["id"], notification_id=row["notification_id"])
                await self._fail(connection, row, token, describe(error))
        return written

    async def _expand_and_settle(self, connection: Connection, rows: Rows, token: UUID) -> Written:
        with spanned("expand", {}):
            expansion = await self._expand(connection, rows)
            await self._live.emit(connection, expansion.frames)
        done = [row["id"] for row in rows if row["id"] not in set(expansion.orphans)]
        await self._outbox.complete_if_leased(connection, done, token)
        EXPANDED.labels("PUBLISHED").inc(len(done))
        if expansion.orphans:
            orphans = [
                Failure(identity, "its notification or its person is gone", NO_PAUSE) for identity in expansion.orphans
            ]
            await self._outbox.bury_if_leased(connection, orphans, token)
            EXPANDED.labels("DEAD").inc(len(orphans))
        return expansion.written

    async def _fail(self, connection: Connection, row: asyncpg.Record, token: UUID, error: str) -> None:
        failure = Failure(row["id"], error, self._retry.pause_after(row["retry_count"] + 1))
        try:
            async with connection.transaction():
                statuses = await self._outbox.fail_if_leased(connection, [failure], token, self._retry.max_attempts)
        except Exception as error_of_record:
            raise_if_outage(error_of_record)
            log.exception("failure_not_recorded", outbox_id=row["id"])
            buried = await bury_alone(self._outbox, connection, failure, token=token)
            statuses = {row["id"]: "DEAD"} if buried else {}
        for status in statuses.values():
            EXPANDED.labels(status).inc()

    async def _expand(self, connection: Connection, rows: Rows) -> Expansion:
        ids = [row["notification_id"] for row in rows]
        user_types = [Audience(row["notification_type"]).user_type for row in rows]
        locked = await store.lock_events(connection, ids, user_types)
        standings = {row["id"]: row for row in await store.find_resolutions(connection, [row["id"] for row in locked])}
        events = {row["id"]: notifications.told(row, standings.get(row["id"])) for row in locked}
        link(event.headers for event in events.values())
        people = {row["id"]: row for row in await store.find_readers(connection, ids, user_types)}

        wordings = Wordings()
        frames: list[AddressedFrame] = []
        sends: list[dict[str, Any]] = []
        for person in (people[identity] for identity in ids if identity in people):
            event, reader = events[person["event_notification_id"]], notifications.reader(person)
            sends += channel_sends(person, reader, event, wordings)
            if wants_live(reader, event.event_type) and notifications.left_because(person, event) is None:
                to = address(person["user_type"], person["user_id"])
                frames.append(addressed(notifications.frame(person, event), [to]))
        written = await store.append_channel_sends(connection, sends) if sends else []
        orphans = [row["id"] for row in rows if row["notification_id"] not in people]
        return Expansion(frames, written, orphans)


class Wordings:
    """The words of a batch: who is told the same in the same language shares them."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], Wording] = {}

    def of(self, event: EventNotification, locale: str) -> Wording:
        language = language_of(locale)
        key = event.id, language.code
        if key not in self._made:
            self._made[key] = Wording(event.event_type, event.audience, language, event.data)
        return self._made[key]


def channel_sends(
    person: asyncpg.Record, reader: Reader, event: EventNotification, wordings: Wordings
) -> list[dict[str, Any]]:
    """The L2 rows of one person: to be sent, skipped or withdrawn, each with its reason."""
    data, withdrawn = event.data, event.withdrawn_because or notifications.left_because(person, event)
    occasion = DeliveryContext(
        event_type=event.event_type,
        allowed=channels_for(event.event_type),
        now=person["now"],
        not_after=not_after(event.event_type, data, event.occurred_at),
        urgent=is_urgent(event.event_type, data, event.occurred_at),
    )
    wording = wordings.of(event, person["locale"])
    links = {
        "notificationId": str(person["id"]),
        "eventNotificationId": str(event.id),
        "reservationId": str(event.reservation_id),
        "eventType": str(event.event_type),
    }
    rows = []
    for answer in plan(reader, occasion):
        row: dict[str, Any] = {
            "notification_id": person["id"],
            "channel_type": answer.channel,
            "user_type": person["user_type"],
            "user_id": person["user_id"],
            "restaurant_id": event.restaurant_id,
            "reservation_id": event.reservation_id,
            "aggregate_version": event.version,
            "recipient": answer.recipient,
            "message": wording.message(answer.channel, person["name"], links).model_dump(),
            "headers": event.headers,
            "not_after": occasion.not_after,
        }
        if isinstance(answer, Send) and withdrawn is None:
            row["next_attempt_at"] = answer.not_before if answer.not_before > occasion.now else None
        elif isinstance(answer, Send):
            row |= {"is_sent": False, "outcome": "WITHDRAWN", "last_error": withdrawn}
        else:
            row |= {"is_sent": False, "outcome": "SKIPPED", "last_error": answer.reason}
        rows.append(row)
    return rows
