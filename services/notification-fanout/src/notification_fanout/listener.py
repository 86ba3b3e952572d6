"""The listener of one audience: turns a batch of events into notifications, in one transaction.

Invariants:
- An event is processed once per listener: its row in processed_event is part of the transaction. A replica with the
  same events waits for that row.
- The notifications of a reservation are created in the order of its versions: by sorting within a batch, and by the
  queue's single active consumer between batches. A missing version blocks nothing.
- The number of statements does not depend on the size of the batch or the number of recipients.

`resolved` and `read` frames are emitted before the commit, so a crash in between repeats them. Frames that RabbitMQ
does not confirm are stored in the same transaction; no batch waits for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from notification_fanout import live_updates, store
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.language import languages
from notification_fanout.message_parser import Incoming, ReservationEvent, parse_message
from notification_fanout.metrics import BATCH_SIZE, CONSUMED, CREATED, DEAD, DUPLICATES, LATENCY, OUT_OF_ORDER
from notification_fanout.render import render_text
from tablebell.audience import SCHEDULED, is_notified, properties_for
from tablebell.inbox import is_shared
from tablebell.people import Audience
from tablebell.postgres import Connection, Pool
from tablebell.rabbit import Handled, HandlingResult, Poison, ReceivedMessage


@dataclass(frozen=True, slots=True)
class ListenerResult:
    """The effect of a committed batch."""

    new: Sequence[Incoming]
    unknown: frozenset[UUID]
    """Events whose restaurant or customer does not exist."""
    created: int
    late: int


EMPTY_RESULT = ListenerResult((), frozenset(), 0, 0)


class EventListener:
    """`announce` wakes the expanders of all replicas."""

    def __init__(
        self, audience: Audience, pool: Pool, frame_publisher: FramePublisher, announce: Callable[[], None]
    ) -> None:
        self._audience = audience
        self._pool = pool
        self._frame_publisher = frame_publisher
        self._announce = announce

    async def handle(self, batch: Sequence[ReceivedMessage]) -> list[HandlingResult]:
        """Return one result per message, after the commit."""
        parsed = [parse_message(message) for message in batch]
        events = {each.event.event_id: each for each in parsed if not isinstance(each, Poison)}
        result = await self._process(list(events.values())) if events else EMPTY_RESULT
        if result.created:
            self._announce()
        handled = [_handling_result(each, result.unknown) for each in parsed]
        self._count(handled, result)
        return handled

    async def _process(self, events: Sequence[Incoming]) -> ListenerResult:
        async with self._pool.acquire() as connection, connection.transaction():
            processed = await self._append_processed(connection, events)
            new = sorted((each for each in events if processed[each.event.event_id]["is_new"]), key=_version)
            notified = [each for each in new if isinstance(each, ReservationEvent) and self._is_notified(each)]
            created = late = 0
            if notified:
                rows = [self._row(position, each) for position, each in enumerate(notified)]
                created, late = await store.append_notifications(connection, rows, self._audience)
            frames = await live_updates.apply_events(connection, self._audience, new)
            await self._frame_publisher.emit(connection, frames)
        unknown = {event_id for event_id, row in processed.items() if not row["is_known"]}
        return ListenerResult(new, frozenset(unknown), created, late)

    async def _append_processed(self, connection: Connection, events: Sequence[Incoming]) -> dict[UUID, asyncpg.Record]:
        reservations = [each.data if isinstance(each, ReservationEvent) else None for each in events]
        rows = await store.append_processed_events(
            connection,
            [each.event.event_id for each in events],
            [data.restaurant_id if data else None for data in reservations],
            [data.customer_id if data else None for data in reservations],
            self._audience.listener,
        )
        return {row["event_id"]: row for row in rows}

    def _is_notified(self, incoming: ReservationEvent) -> bool:
        return is_notified(incoming.event.event_type, self._audience, incoming.data.actor)

    def _row(self, position: int, incoming: ReservationEvent) -> dict[str, Any]:
        event, data = incoming.event, incoming.data
        # All languages: append_notifications itself finds the recipients and their locales. Rendering only those in
        # use would take another query per batch.
        texts = {
            code: render_text(event.event_type, self._audience, language, data)
            for code, language in languages().items()
        }
        return {
            "position": position,
            "event_id": event.event_id,
            "event_type": event.event_type,
            "reservation_id": data.reservation_id,
            "restaurant_id": data.restaurant_id,
            "customer_id": data.customer_id,
            "agency_id": data.agency_id,
            "aggregate_version": event.aggregate_version,
            "slot_time": data.slot_time,
            "shared": is_shared(event.event_type, self._audience),
            "scheduled": event.event_type in SCHEDULED,
            "properties": properties_for(self._audience, event.data) | {"occurredAt": event.occurred_at},
            "headers": incoming.correlation.as_headers(),
            "texts": {code: (text.title, text.body) for code, text in texts.items()},
        }

    def _count(self, handled: Sequence[HandlingResult], result: ListenerResult) -> None:
        listener, now = self._audience.listener, datetime.now(UTC)
        dead = sum(isinstance(each, Poison) for each in handled)
        BATCH_SIZE.labels(listener).observe(len(handled))
        CONSUMED.labels(listener).inc(len(handled))
        DEAD.labels(listener).inc(dead)
        DUPLICATES.labels(listener).inc(len(handled) - dead - len(result.new))
        CREATED.labels(listener).inc(result.created)
        OUT_OF_ORDER.labels(listener).inc(result.late)
        latency = LATENCY.labels(listener)
        for each in result.new:
            if each.event.event_type not in SCHEDULED:  # written long before they are due
                latency.observe(max(0.0, (now - each.event.occurred_at).total_seconds()))


def _version(incoming: Incoming) -> int:
    return incoming.event.aggregate_version


def _handling_result(parsed: Incoming | Poison, unknown: frozenset[UUID]) -> HandlingResult:
    if isinstance(parsed, Poison):
        return parsed
    if isinstance(parsed, ReservationEvent) and parsed.event.event_id in unknown:
        data = parsed.data
        return Poison(f"restaurant {data.restaurant_id} or customer {data.customer_id} does not exist")
    return Handled()
