"""Builds every row of `event_outbox` (L0) that reservation-api writes; `payload` is the `data` that listeners read."""

from datetime import datetime
from typing import Any

from reservation_api import store
from reservation_api.domain.reservation import Reservation
from reservation_api.domain.restaurant import Restaurant
from reservation_api.domain.schedule import Planned
from tablebell.correlation import current
from tablebell.events import Actor, EventType, NotificationData, ReservationData
from tablebell.tokens import Identity


def requested_event(
    identity: Identity,
    restaurant: Restaurant,
    *,
    customer_id: int,
    party_size: int,
    slot_time: datetime,
    note: str | None,
) -> dict[str, Any]:
    """The event of a reservation that is about to be inserted.

    `ask_reservation` inserts both in one statement and adds the values that only the database knows: reservationId,
    status, customerName, agencyId and actor.name.
    """
    data = ReservationData.model_construct(
        customer_id=customer_id,
        restaurant_id=restaurant.id,
        restaurant_name=restaurant.name,
        party_size=party_size,
        slot_time=slot_time,
        timezone=restaurant.timezone.key,
        note=note,
        actor=Actor.model_construct(user_type=identity.user_type, user_id=identity.user_id),
    )
    return {
        "event_type": EventType.RESERVATION_REQUESTED,
        "payload": data.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "headers": current().as_headers(),
    }


def reservation_event(
    row: store.Row,
    after: Reservation,
    at: datetime,
    event_type: EventType,
    *,
    actor: Actor | None = None,
    action: str | None = None,
    planned: Planned | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """`row` is the reservation before the transition, `after` the state after it. A planned event is due later."""
    data = ReservationData(
        reservation_id=row["id"],
        customer_id=row["customer_id"],
        customer_name=row["customer_name"],
        restaurant_id=row["restaurant_id"],
        restaurant_name=row["restaurant_name"],
        agency_id=row["agency_id"],
        party_size=after.party_size,
        slot_time=after.slot_time,
        timezone=row["timezone"],
        status=after.status,
        note=after.note,
        proposed_time=after.proposed_time,
        previous_slot_time=row["slot_time"] if row["slot_time"] != after.slot_time else None,
        previous_party_size=row["party_size"] if row["party_size"] != after.party_size else None,
        actor=actor,
        action=action,
        reminder=planned.reminder if planned else None,
        reason=reason,
    )
    return {
        "event_type": event_type,
        "aggregate_id": row["id"],
        "aggregate_version": after.version,
        "schedule_key": planned.schedule_key if planned else None,
        "payload": data.model_dump(mode="json", by_alias=True),
        "headers": current().as_headers(),
        "available_at": planned.at if planned else at,
        "created_at": at,
    }


def notification_event(event_type: EventType, aggregate_id: int, data: NotificationData) -> dict[str, Any]:
    return {
        "event_type": event_type,
        "aggregate_type": "notification",
        "aggregate_id": aggregate_id,
        "aggregate_version": 1,
        "payload": data.model_dump(mode="json", by_alias=True),
        "headers": current().as_headers(),
        "created_at": data.at,
    }
