"""`python -m notification_fanout.preview --event … --audience … --channel … --locale …`: prints a message."""

import argparse
import sys
from datetime import UTC, datetime, timedelta

from notification_fanout.language import CODES, languages
from notification_fanout.render import NotificationRenderer
from tablebell.audience import AUDIENCES, channels_for
from tablebell.events import EventType, ReservationData
from tablebell.messages import EmailMessage, Message, PushMessage, SlackMessage, SmsMessage
from tablebell.people import Audience, Channel

EVENTS = [event_type for event_type, audiences in AUDIENCES.items() if audiences]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m notification_fanout.preview", description=__doc__)
    parser.add_argument("--event", type=EventType, choices=EVENTS, required=True, metavar="RESERVATION_REQUESTED")
    parser.add_argument("--audience", type=Audience, choices=list(Audience), required=True)
    parser.add_argument("--channel", type=Channel, choices=list(Channel), required=True)
    parser.add_argument("--locale", choices=CODES, required=True)
    parser.add_argument("--customer", default="Anna Bianchi")
    parser.add_argument("--restaurant", default="Trattoria del Porto")
    parser.add_argument("--recipient", default="Giulia Ferri")
    parser.add_argument("--note", default="Un seggiolone, per favore.")
    parser.add_argument("--html", action="store_true", help="print the HTML part of an e-mail instead of its text")
    options = parser.parse_args(arguments)
    if options.audience not in AUDIENCES[options.event]:
        parser.error(f"{options.audience} is not notified of {options.event}")
    if options.channel not in channels_for(options.event):
        parser.error(f"{options.event} is not sent by {options.channel}")

    data = sample(options.customer, options.restaurant, options.note)
    renderer = NotificationRenderer(options.event, options.audience, languages()[options.locale], data)
    if options.channel is Channel.WEBSOCKET:
        shown = f"{renderer.text.title}\n\n{renderer.text.body}"
    else:
        shown = show(renderer.message(options.channel, options.recipient, {"reservationId": "1"}), html=options.html)
    sys.stdout.write(shown + "\n")
    return 0


def sample(customer: str, restaurant: str, note: str | None) -> ReservationData:
    """A reservation for tomorrow evening, changed from the evening after, with another time proposed."""
    slot = (datetime.now(UTC) + timedelta(days=1)).replace(hour=19, minute=30, second=0, microsecond=0)
    return ReservationData(
        reservation_id=1,
        customer_id=5,
        customer_name=customer,
        restaurant_id=10,
        restaurant_name=restaurant,
        agency_id=7,
        party_size=4,
        slot_time=slot,
        timezone="Europe/Rome",
        status="NOT_ACCEPTED",
        note=note,
        proposed_time=slot + timedelta(hours=1),
        previous_slot_time=slot + timedelta(days=1),
        previous_party_size=1,
        reminder="24h",
    )


def show(message: Message, *, html: bool) -> str:
    match message:
        case EmailMessage():
            return f"Subject: {message.subject}\n\n{message.html if html else message.text}"
        case SmsMessage():
            return f"{message.text}\n\n({len(message.text)} characters)"
        case PushMessage():
            return f"{message.title}\n{message.body}\n\n{message.data}"
        case SlackMessage():
            return message.text
        case _:
            raise TypeError(f"cannot show a {type(message).__name__}")


if __name__ == "__main__":
    sys.exit(main())
