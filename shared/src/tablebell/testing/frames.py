"""Frames as notification-fanout publishes them."""

from datetime import UTC, datetime

from tablebell.frames import AddressedFrame, NotificationFrame, addressed


def notification(number: int, *to: str, body: str = "Tavolo per 4") -> AddressedFrame:
    """A new notification frame for some addresses. All its ids are `number`."""
    view = NotificationFrame(
        id=number,
        event_notification_id=number,
        event_type="RESERVATION_REQUESTED",
        reservation_id=number,
        title="Nuova prenotazione ricevuta",
        body=body,
        properties={},
        shared=True,
        actions=["CONFIRMED", "REJECTED", "POSTPONED"],
        is_read=False,
        created_at=datetime.now(UTC),
    )
    return addressed(view, list(to))
