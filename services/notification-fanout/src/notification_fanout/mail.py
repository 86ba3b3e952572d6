"""Renders the parts of an e-mail; the dispatcher lays them out. Pure.

A mail to a guest speaks for the restaurant; the others come from Tablebell. The facts of the reservation are listed
once: the sentences do not repeat them. A sentence asks only for what its reader can do; `contact` says how to answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from notification_fanout.calendar_entry import calendar_entry, entry_status
from notification_fanout.contact import RestaurantContact, contact_reason
from notification_fanout.escaping import plain
from notification_fanout.fields import Fields
from notification_fanout.language import Language
from tablebell.audience import sees_note
from tablebell.events import EventType, ReservationData
from tablebell.messages import CalendarEntry, EmailMessage, Letterhead, Tone
from tablebell.people import Audience

NOTE_LENGTH = 500
PRODUCT = Letterhead(name="Tablebell")
TONES: Mapping[EventType, Tone] = {
    EventType.RESERVATION_REQUESTED: Tone.PENDING,
    EventType.RESERVATION_ACCEPTED: Tone.POSITIVE,
    EventType.RESERVATION_REJECTED: Tone.NEGATIVE,
    EventType.RESERVATION_POSTPONED: Tone.PENDING,
    EventType.RESERVATION_CHANGED: Tone.PENDING,
    EventType.RESERVATION_DECISION_UNDONE: Tone.PENDING,
    EventType.RESERVATION_CANCELLED: Tone.NEGATIVE,
    EventType.RESERVATION_REMINDER_DUE: Tone.POSITIVE,
}


@dataclass(frozen=True, slots=True)
class MailContext:
    """What a message needs besides the event's data."""

    contact: RestaurantContact
    version: int
    occurred_at: datetime
    was_accepted: bool
    """Whether an earlier version of the reservation was accepted."""


class MailRenderer:
    """Renders one event for one audience in one language. Only the greeting differs between its recipients."""

    def __init__(
        self, event_type: EventType, audience: Audience, language: Language, data: ReservationData, context: MailContext
    ) -> None:
        self._event_type = event_type
        self._audience = audience
        self._language = language
        self._data = data
        self._fields = Fields(language, data)
        self._context = context

    def render(self, title: str) -> EmailMessage:
        """The mail without its greeting. `title` is the stored title of the notification."""
        language = self._language
        template = language.template(self._event_type, self._audience, self._data)
        facts = dict(self._facts())
        paragraph = template.mail.format_map(self._fields)
        to_guest = self._audience is Audience.CUSTOMER
        contact = self._context.contact
        summary = [facts[label] for label in ("customer", "proposed", "when", "party") if label in facts]
        return EmailMessage(
            language=language.code,
            subject=template.subject.format_map(self._fields) if template.subject else title,
            preheader=" · ".join(summary) or paragraph,
            letterhead=self._letterhead(),
            tone=TONES.get(self._event_type, Tone.NEUTRAL),
            greeting="",
            paragraphs=(paragraph,),
            facts=tuple((language.labels[label], value) for label, value in facts.items()),
            contact=self._contact(),
            footer=language.footer,
            sender_name=(contact.sender_name or self._fields["restaurant"]) if to_guest else None,
            reply_to=contact.reply_to if to_guest else None,
            calendar=self._calendar(),
        )

    def _letterhead(self) -> Letterhead:
        match self._audience:
            case Audience.CUSTOMER:
                contact = self._context.contact
                return Letterhead(name=self._fields["restaurant"], address=contact.address, phone=contact.phone)
            case Audience.RESTAURANT:
                return Letterhead(name=self._fields["restaurant"])
            case Audience.ADMIN | Audience.AGENCY:
                return PRODUCT

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Labels of the templates with their values. The first one is the most important."""
        if self._event_type is EventType.RESERVATION_VISIT_ENDED:
            return
        fields = self._fields
        if self._is_proposal:
            yield "proposed", capitalize(fields["proposed"])
            yield "requested", capitalize(fields["when"])
        else:
            yield "when", capitalize(fields["when"])
        yield "party", fields["party"]
        if self._event_type is EventType.RESERVATION_CHANGED:
            yield "before", fields["before"]
        yield "name" if self._audience is Audience.CUSTOMER else "customer", fields["customer"]
        if self._audience in (Audience.ADMIN, Audience.AGENCY):
            yield "restaurant", fields["restaurant"]
        if self._data.reason:
            yield "reason", fields["reason"]
        if self._data.note and sees_note(self._audience):
            yield "note", plain(self._data.note, NOTE_LENGTH)

    @property
    def _is_proposal(self) -> bool:
        return self._event_type is EventType.RESERVATION_POSTPONED and self._data.proposed_time is not None

    def _contact(self) -> str | None:
        reason = contact_reason(self._event_type, self._audience)
        return self._language.contact[reason].email(self._context.contact) if reason else None

    def _calendar(self) -> CalendarEntry | None:
        status = entry_status(self._event_type, self._audience, was_accepted=self._context.was_accepted)
        if status is None:
            return None
        phone = self._context.contact.phone
        return calendar_entry(
            status,
            reservation_id=self._data.reservation_id,
            version=self._context.version,
            occurred_at=self._context.occurred_at,
            start=(self._data.proposed_time if self._is_proposal else None) or self._data.slot_time,
            summary=f"{self._fields['restaurant']}, {self._fields['party']}",
            attendee=self._fields["customer"],
            description=f"{self._language.labels['phone']}: {phone}" if phone else None,
        )


def capitalize(text: str) -> str:
    """Only the first letter: str.capitalize would change the others."""
    return text[:1].upper() + text[1:]
