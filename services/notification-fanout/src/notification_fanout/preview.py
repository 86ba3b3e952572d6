"""`python -m notification_fanout.preview --event … --audience … --channel … --locale …`: how a text will read."""

import argparse
import sys
from datetime import UTC, datetime, timedelta

from notification_fanout.audience import AUDIENCES, channels_for, is_told
from notification_fanout.language import CODES, languages
from notification_fanout.render import Wording
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
    parser.add_argument("--reader", default="Giulia Ferri")
    parser.add_argument("--note", default="Un seggiolone, per favore.")
    parser.add_argument("--html", action="store_true", help="the HTML part of an e-mail instead of its text")
    given = parser.parse_args(arguments)
    if not is_told(given.event, given.audience):
        parser.error(f"{given.audience} is not told of {given.event}")
    if given.channel not in channels_for(given.event):
        parser.error(f"{given.event} is not told by {given.channel}")

    data = sample(given.customer, given.restaurant, given.note)
    wording = Wording(given.event, given.audience, languages()[given.locale], data)
    if given.channel is Channel.WEBSOCKET:
        shown = f"{wording.text.title}\n\n{wording.text.body}"
    else:
        shown = show(wording.message(given.channel, given.reader, {"reservationId": "1"}), html=given.html)
    sys.stdout.write(shown + "\n")
    return 0


def sample(customer: str, restaurant: str, note: str | None) -> ReservationData:
    """A reservation of tomorrow evening that had been for the evening after, and has another time proposed."""
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
            raise TypeError(f"there is no way to show a {type(message).__name__}")


if __name__ == "__main__":
    sys.exit(main())
