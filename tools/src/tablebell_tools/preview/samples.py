"""The messages of a sample reservation."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from notification_fanout.contact import RestaurantContact
from notification_fanout.language import languages
from notification_fanout.mail import MailContext
from notification_fanout.render import NotificationRenderer, render_text
from tablebell.audience import AUDIENCES, channels_for
from tablebell.events import EventType, ReservationData
from tablebell.messages import Message
from tablebell.people import DEFAULT_CHANNELS, DURABLE_CHANNELS, Audience, Channel

RECIPIENTS = {Audience.RESTAURANT: "Giulia Ferri", Audience.ADMIN: "Elena Conti", Audience.AGENCY: "Carmen Vidal"}


@dataclass(frozen=True, slots=True)
class Sample:
    """What people typed."""

    customer: str = "Anna Bianchi"
    restaurant: str = "Trattoria del Porto"
    note: str = "Un seggiolone, per favore."
    address: str = "Calata Andalò di Negro 12, 16126 Genova"
    phone: str = "+39 010 555 0110"
    reply_to: str = "tavoli@porto.example"


@dataclass(frozen=True, slots=True)
class SampleMessages:
    """The messages of one event to one audience in one language."""

    event_type: EventType
    audience: Audience
    language: str
    messages: dict[Channel, Message]

    @property
    def name(self) -> str:
        return f"{self.event_type}-{self.audience}-{self.language}"


def sample_messages(sample: Sample) -> Iterator[SampleMessages]:
    data = _reservation(sample)
    context = MailContext(
        RestaurantContact.of(address=sample.address, phone=sample.phone, sender_name=None, reply_to=sample.reply_to),
        version=2,
        occurred_at=datetime.now(UTC),
        was_accepted=True,
    )
    for event_type, audiences in AUDIENCES.items():
        for audience in audiences:
            channels = [
                channel
                for channel in DURABLE_CHANNELS
                if channel in channels_for(event_type) and channel in DEFAULT_CHANNELS[audience.user_type]
            ]
            for code, language in languages().items():
                text = render_text(event_type, audience, language, data)
                renderer = NotificationRenderer(event_type, audience, language, data, text=text, context=context)
                recipient = RECIPIENTS.get(audience, sample.customer)
                messages = {channel: renderer.message(channel, recipient, {}) for channel in channels}
                yield SampleMessages(event_type, audience, code, messages)


def _reservation(sample: Sample) -> ReservationData:
    """A reservation for tomorrow evening, changed from the evening after, with another time proposed."""
    slot = (datetime.now(UTC) + timedelta(days=1)).replace(hour=19, minute=30, second=0, microsecond=0)
    return ReservationData(
        reservation_id=1,
        customer_id=5,
        customer_name=sample.customer,
        restaurant_id=10,
        restaurant_name=sample.restaurant,
        agency_id=7,
        party_size=4,
        slot_time=slot,
        timezone="Europe/Rome",
        status="NOT_ACCEPTED",
        note=sample.note,
        proposed_time=slot + timedelta(hours=1),
        previous_slot_time=slot + timedelta(days=1),
        previous_party_size=2,
        reminder="24h",
    )
