"""Rows of L0: what happened to a reservation or a notification, as the listeners will read it."""

from datetime import datetime
from typing import Any

from reservation_api import store
from reservation_api.domain.reservation import Reservation
from reservation_api.domain.schedule import Planned
from tablebell.correlation import current
from tablebell.events import Actor, EventType, NotificationData, ReservationData


def reservation_event(
    row: store.Row,
    after: Reservation,
    at: datetime,
    event_type: EventType,
    *,
    actor: Actor | None = None,
    action: str | None = None,
    planned: Planned | None = None,
) -> dict[str, Any]:
    """`row` is the reservation as it was, `after` as it is; a planned event waits for its time."""
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
