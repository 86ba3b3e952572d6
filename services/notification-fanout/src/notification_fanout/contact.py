"""How a guest can reach the restaurant, and the sentence that says so. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from notification_fanout.escaping import plain
from tablebell.events import EventType
from tablebell.people import Audience

ADDRESS_LENGTH = 200
PHONE_LENGTH = 24
NO_BREAK_SPACE = "\u00a0"
# Only a valid address is promised to the guest. Stricter than the dispatcher's check.
REPLY_TO = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")

# Why a guest would contact the restaurant after an event: the key of the sentence in the templates.
REASONS: Mapping[EventType, str] = {
    EventType.RESERVATION_REQUESTED: "change",
    EventType.RESERVATION_ACCEPTED: "change",
    EventType.RESERVATION_REJECTED: "other_time",
    EventType.RESERVATION_POSTPONED: "answer",
    EventType.RESERVATION_CHANGED: "change",
    EventType.RESERVATION_CANCELLED: "question",
    EventType.RESERVATION_REMINDER_DUE: "cancel",
}


@dataclass(frozen=True, slots=True)
class RestaurantContact:
    """The columns of `restaurant`, sanitized; None if there is no usable value."""

    address: str | None = None
    phone: str | None = None
    sender_name: str | None = None
    reply_to: str | None = None

    @classmethod
    def of(
        cls, *, address: str | None, phone: str | None, sender_name: str | None, reply_to: str | None
    ) -> "RestaurantContact":
        number = plain(phone or "", PHONE_LENGTH + 1)
        mailbox = (reply_to or "").strip()
        return cls(
            address=plain(address or "", ADDRESS_LENGTH) or None,
            phone=number if len(number) <= PHONE_LENGTH and any(letter.isdigit() for letter in number) else None,
            sender_name=plain(sender_name or "", ADDRESS_LENGTH) or None,
            reply_to=mailbox if REPLY_TO.fullmatch(mailbox) else None,
        )


@dataclass(frozen=True, slots=True)
class ContactTexts:
    """The sentences for one reason, by what the restaurant has. None: nothing needs to be said."""

    phone_and_reply: str
    phone: str
    reply: str
    neither: str | None = None
    sms: str | None = None

    def email(self, contact: RestaurantContact) -> str | None:
        number = (contact.phone or "").replace(" ", NO_BREAK_SPACE)
        if contact.phone and contact.reply_to:
            return self.phone_and_reply.format(phone=number)
        if contact.phone:
            return self.phone.format(phone=number)
        return self.reply if contact.reply_to else self.neither

    def for_sms(self, contact: RestaurantContact) -> str | None:
        return self.sms.format(phone=contact.phone) if self.sms and contact.phone else None


def contact_reason(event_type: EventType, audience: Audience) -> str | None:
    return REASONS.get(event_type) if audience is Audience.CUSTOMER else None
