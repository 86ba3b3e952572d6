"""A reservation to render."""

from datetime import UTC, datetime, timedelta

from notification_fanout.contact import RestaurantContact
from notification_fanout.language import languages
from notification_fanout.mail import MailContext
from notification_fanout.render import NotificationRenderer, Text, render_text
from tablebell.events import EventType, ReservationData
from tablebell.people import Audience

SLOT = datetime(2026, 11, 20, 19, 30, tzinfo=UTC)
REACHABLE = RestaurantContact(
    address="Calata Andalò di Negro 12, 16126 Genova", phone="+39 010 555 0110", reply_to="tavoli@porto.example"
)


# A cancellation by the restaurant, with its reason, has texts of its own.
CALLED_OFF = "called off"


def sample(customer: str, restaurant: str, note: str | None, reason: str | None = None) -> ReservationData:
    """Changed from the evening after, with another time proposed."""
    return ReservationData(
        reservation_id=17,
        customer_id=5,
        customer_name=customer,
        restaurant_id=10,
        restaurant_name=restaurant,
        agency_id=7,
        party_size=4,
        slot_time=SLOT,
        timezone="Europe/Rome",
        status="NOT_ACCEPTED",
        note=note,
        proposed_time=SLOT + timedelta(hours=1),
        previous_slot_time=SLOT + timedelta(days=1),
        previous_party_size=1,
        reminder="24h",
        reason=reason,
    )


def sample_of(event_type: str, name: str) -> tuple[EventType, ReservationData]:
    if event_type == CALLED_OFF:
        return EventType.RESERVATION_CANCELLED, sample(name, f"Da {name}", name, name)
    return EventType(event_type), sample(name, f"Da {name}", name)


def text(event_type: str, audience: Audience, code: str, name: str = "Anna Bianchi") -> Text:
    kind, data = sample_of(event_type, name)
    return render_text(kind, audience, languages()[code], data)


def renderer(
    event_type: str,
    audience: Audience,
    code: str,
    name: str = "Anna Bianchi",
    *,
    contact: RestaurantContact = REACHABLE,
    was_accepted: bool = True,
) -> NotificationRenderer:
    """`name` is what everybody typed."""
    context = MailContext(contact, version=3, occurred_at=SLOT - timedelta(days=2), was_accepted=was_accepted)
    (kind, data), stored = sample_of(event_type, name), text(event_type, audience, code, name)
    return NotificationRenderer(kind, audience, languages()[code], data, text=stored, context=context)
