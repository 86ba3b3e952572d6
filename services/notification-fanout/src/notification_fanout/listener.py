"""A listener: what has arrived becomes what follows from it, in one transaction per batch.

The same few statements whatever the size of the batch and however many people are concerned. An event is new or it is
not, decided by the row of processed_event in the same transaction; a replica that holds the same events is waited for.
Within a batch the events of a reservation are told in the order of their version; between batches the queue keeps it,
since it has one reader at a time. A version that never comes holds up nothing.

Frames for the screens (`resolved`, `read`) are emitted before the commit: after a crash in between they come again.
Frames that RabbitMQ does not take are part of the transaction, so no batch ever waits for them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from notification_fanout import live_updates, store
from notification_fanout.audience import PLANNED, is_told, properties_for
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.language import languages
from notification_fanout.message_parser import Incoming, ReservationEvent, parse_message
from notification_fanout.metrics import BATCH_SIZE, CONSUMED, CREATED, DEAD, DUPLICATES, LATENCY, OUT_OF_ORDER
from notification_fanout.render import Wording
from tablebell.inbox import is_shared
from tablebell.people import Audience
from tablebell.postgres import Connection, Pool
from tablebell.rabbit import Handled, HandlingResult, Poison, ReceivedMessage


@dataclass(frozen=True, slots=True)
class ListenerResult:
    """What a committed batch came to."""

    fresh: Sequence[Incoming]
    unknown: frozenset[UUID]
    """Events that name somebody who does not exist."""
    created: int
    late: int


NOTHING = ListenerResult((), frozenset(), 0, 0)


class EventListener:
    """`announce` tells the expanders, here and elsewhere, that there is work for them."""

    def __init__(self, audience: Audience, pool: Pool, live: FramePublisher, announce: Callable[[], None]) -> None:
        self._audience = audience
        self._pool = pool
        self._live = live
        self._announce = announce

    async def handle(self, batch: Sequence[ReceivedMessage]) -> list[HandlingResult]:
        """One verdict per message, after everything that follows from the good ones has been committed."""
        understood = [parse_message(delivery) for delivery in batch]
        events = {each.event.event_id: each for each in understood if not isinstance(each, Poison)}
        outcome = await self._process(list(events.values())) if events else NOTHING
        if outcome.created:
            self._announce()
        verdicts = [_verdict(each, outcome.unknown) for each in understood]
        self._count(verdicts, outcome)
        return verdicts

    async def _process(self, events: Sequence[Incoming]) -> ListenerResult:
        async with self._pool.acquire() as connection, connection.transaction():
            claimed = await self._claim(connection, events)
            fresh = sorted((each for each in events if claimed[each.event.event_id]["is_new"]), key=_version)
            told = [each for each in fresh if isinstance(each, ReservationEvent) and self._is_told(each)]
            created = late = 0
            if told:
                rows = [self._row(position, each) for position, each in enumerate(told)]
                created, late = await store.append_notifications(connection, rows, self._audience)
            frames = await live_updates.frames_after(connection, self._audience, fresh)
            await self._live.emit(connection, frames)
        unknown = {identity for identity, row in claimed.items() if not row["is_known"]}
        return ListenerResult(fresh, frozenset(unknown), created, late)

    async def _claim(self, connection: Connection, events: Sequence[Incoming]) -> dict[UUID, asyncpg.Record]:
        reservations = [each.data if isinstance(each, ReservationEvent) else None for each in events]
        rows = await store.append_processed_events(
            connection,
            [each.event.event_id for each in events],
            [data.restaurant_id if data else None for data in reservations],
            [data.customer_id if data else None for data in reservations],
            self._audience.listener,
        )
        return {row["event_id"]: row for row in rows}

    def _is_told(self, incoming: ReservationEvent) -> bool:
        return is_told(incoming.event.event_type, self._audience)

    def _row(self, position: int, incoming: ReservationEvent) -> dict[str, Any]:
        event, data = incoming.event, incoming.data
        wordings = {
            code: Wording(event.event_type, self._audience, language, data).text
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
            "planned": event.event_type in PLANNED,
            "properties": properties_for(self._audience, event.data) | {"occurredAt": event.occurred_at},
            "headers": incoming.correlation.as_headers(),
            "texts": {code: (text.title, text.body) for code, text in wordings.items()},
        }

    def _count(self, verdicts: Sequence[HandlingResult], outcome: ListenerResult) -> None:
        listener, now = self._audience.listener, datetime.now(UTC)
        dead = sum(isinstance(verdict, Poison) for verdict in verdicts)
        BATCH_SIZE.labels(listener).observe(len(verdicts))
        CONSUMED.labels(listener).inc(len(verdicts))
        DEAD.labels(listener).inc(dead)
        DUPLICATES.labels(listener).inc(len(verdicts) - dead - len(outcome.fresh))
        CREATED.labels(listener).inc(outcome.created)
        OUT_OF_ORDER.labels(listener).inc(outcome.late)
        latency = LATENCY.labels(listener)
        for each in outcome.fresh:
            if each.event.event_type not in PLANNED:  # those were planned long ago, and come when they should
                latency.observe(max(0.0, (now - each.event.occurred_at).total_seconds()))


def _version(incoming: Incoming) -> int:
    return incoming.event.aggregate_version


def _verdict(understood: Incoming | Poison, unknown: frozenset[UUID]) -> HandlingResult:
    if isinstance(understood, Poison):
        return understood
    if isinstance(understood, ReservationEvent) and understood.event.event_id in unknown:
        data = understood.data
        return Poison(f"restaurant {data.restaurant_id} or customer {data.customer_id} does not exist")
    return Handled()
