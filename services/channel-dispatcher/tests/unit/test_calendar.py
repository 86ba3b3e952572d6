"""Calendar entries, read by two calendar libraries."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage as Mail
from email.policy import default
from typing import Any, NamedTuple

import icalendar
import pytest
import vobject

from channel_dispatcher.channels.email import invitation
from channel_dispatcher.channels.smtp.layout import html, plain_text
from channel_dispatcher.channels.smtp.message import build_mail, parse_mailbox
from tablebell.messages import CalendarEntry, EmailMessage, Letterhead

SLOT = datetime(2026, 11, 20, 19, 30, tzinfo=UTC)
SENDER = parse_mailbox("Tablebell <no-reply@tablebell.example>")
HOSTILE = [
    "a; b, c \\ d",
    'say "hi": now',
    "é" * 200,
    "🍝" * 60,
    "x" * 400,
    "line\r\nATTENDEE:mailto:evil@evil.example",
    "",
]


class Entry(NamedTuple):
    method: str
    uid: str
    sequence: int
    status: str
    start: datetime
    end: datetime
    summary: str
    location: str
    organizer: str
    attendee: str


def read_icalendar(text: str) -> Entry:
    calendar: Any = icalendar.Calendar.from_ical(text)
    (event,) = calendar.walk("VEVENT")
    return Entry(
        str(calendar["METHOD"]), str(event["UID"]), int(event["SEQUENCE"]), str(event["STATUS"]),
        event["DTSTART"].dt, event["DTEND"].dt, str(event["SUMMARY"]), str(event["LOCATION"]),
        str(event["ORGANIZER"]), str(event["ATTENDEE"]),
    )  # fmt: skip


def read_vobject(text: str) -> Entry:
    calendar: Any = vobject.readOne(text)
    (event,) = calendar.vevent_list
    return Entry(
        calendar.method.value, event.uid.value, int(event.sequence.value), event.status.value,
        event.dtstart.value, event.dtend.value, event.summary.value, event.location.value,
        event.organizer.value, event.attendee.value,
    )  # fmt: skip


READERS = [read_icalendar, read_vobject]


def entry(sequence: int, status: str, *, start: datetime = SLOT, **changes: Any) -> CalendarEntry:
    given: dict[str, Any] = {
        "method": "CANCEL" if status == "CANCELLED" else "REQUEST",
        "status": status,
        "uid": "reservation-17",
        "sequence": sequence,
        "stamp": SLOT - timedelta(days=3) + timedelta(hours=sequence),
        "start": start,
        "end": start + timedelta(hours=2),
        "summary": "Trattoria del Porto, 4 persone",
        "attendee": "Anna Bianchi",
    }
    return CalendarEntry(**given | changes)


def mail(calendar: CalendarEntry | None, name: str = "Trattoria del Porto") -> Mail:
    message = EmailMessage(
        language="it",
        subject="Confermata",
        preheader="",
        letterhead=Letterhead(name=name, address="Calata 12, Genova"),
        greeting="Ciao,",
        paragraphs=("A presto",),
        footer="Tablebell",
        calendar=calendar,
    )
    raw = build_mail(
        sender=SENDER,
        recipient="anna@mail.example",
        subject=message.subject,
        text=plain_text(message),
        html=html(message),
        message_id="17-1@tablebell.example",
        date=SLOT,
        unsubscribe="https://tablebell.example",
        invitation=invitation(message, organizer=SENDER, attendee="anna@mail.example"),
    )
    parsed = message_from_bytes(raw, policy=default)
    assert isinstance(parsed, Mail)
    assert all(not part.defects for part in parsed.walk())
    assert max(len(line) for line in raw.split(b"\r\n")) <= 998
    return parsed


def calendar_part(parsed: Mail) -> str:
    (part,) = (each for each in parsed.walk() if each.get_content_type() == "text/calendar")
    content: str = part.get_content()
    return content


class Calendar:
    """What a guest's calendar program does with invitations (RFC 5546, 2.1.5 and 3.2)."""

    def __init__(self, read: Callable[[str], Entry]) -> None:
        self._read = read
        self._seen: dict[str, int] = {}
        self.entries: dict[str, Entry] = {}

    def receive(self, parsed: Mail) -> None:
        if not any(part.get_content_type() == "text/calendar" for part in parsed.walk()):
            return
        received = self._read(calendar_part(parsed))
        if received.sequence < self._seen.get(received.uid, 0):
            return
        self._seen[received.uid] = received.sequence
        if received.method == "CANCEL":
            self.entries.pop(received.uid, None)
        else:
            self.entries[received.uid] = received


@pytest.mark.parametrize("read", READERS)
def test_request_accept_change_cancel_leaves_no_entry_and_never_two(read: Callable[[str], Entry]) -> None:
    calendar, later = Calendar(read), SLOT + timedelta(days=1)
    calendar.receive(mail(None))  # the request
    assert calendar.entries == {}
    calendar.receive(mail(entry(2, "CONFIRMED")))
    (accepted,) = calendar.entries.values()
    assert (accepted.start, accepted.end, accepted.status) == (SLOT, SLOT + timedelta(hours=2), "CONFIRMED")
    calendar.receive(mail(entry(3, "TENTATIVE", start=later)))
    (changed,) = calendar.entries.values()
    assert (changed.start, changed.status) == (later, "TENTATIVE")
    calendar.receive(mail(entry(4, "CONFIRMED", start=later)))
    assert len(calendar.entries) == 1
    calendar.receive(mail(entry(5, "CANCELLED", start=later)))
    assert calendar.entries == {}
    calendar.receive(mail(entry(4, "CONFIRMED", start=later)))
    assert calendar.entries == {}, "a late copy of an earlier version does not bring the entry back"


@pytest.mark.parametrize("read", READERS)
def test_an_entry_has_what_rfc_5546_requires(read: Callable[[str], Entry]) -> None:
    found = read(calendar_part(mail(entry(2, "CONFIRMED"))))
    assert found.uid == "reservation-17@tablebell.example"
    assert (found.organizer, found.attendee) == ("mailto:no-reply@tablebell.example", "mailto:anna@mail.example")
    assert found.location == "Trattoria del Porto, Calata 12, Genova"


def test_the_calendar_is_an_alternative_with_its_method_and_an_attachment() -> None:
    for status, method in (("CONFIRMED", "REQUEST"), ("CANCELLED", "CANCEL")):
        parsed = mail(entry(2, status))
        assert [part.get_content_type() for part in parsed.walk()] == [
            "multipart/mixed", "multipart/alternative", "text/plain", "text/html", "text/calendar", "application/ics",
        ]  # fmt: skip
        (part,) = (each for each in parsed.walk() if each.get_content_type() == "text/calendar")
        assert part.get_param("method") == method
        (attachment,) = parsed.iter_attachments()
        assert attachment.get_filename() == "invite.ics"
        assert attachment.get_content().decode() == calendar_part(parsed)
        assert parsed.get_body(("html",)) is not None
        assert parsed.get_body(("plain",)) is not None


def test_a_mail_without_an_entry_has_no_calendar() -> None:
    assert mail(None).get_content_type() == "multipart/alternative"


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("user_input", HOSTILE)
def test_any_text_round_trips_and_adds_no_property(user_input: str, read: Callable[[str], Entry]) -> None:
    calendar = entry(2, "CONFIRMED", summary=user_input, attendee=user_input, description=user_input or None)
    text = calendar_part(mail(calendar, name=user_input))
    found = read(text)
    one_line = " ".join(user_input.splitlines()) if "\r" in user_input else user_input
    assert found.summary == one_line
    assert found.location == (f"{one_line}, Calata 12, Genova" if one_line else "Calata 12, Genova")
    assert found.attendee == "mailto:anna@mail.example"


@pytest.mark.parametrize("user_input", HOSTILE)
def test_lines_are_folded_at_75_octets_and_end_with_crlf(user_input: str) -> None:
    calendar = entry(2, "CONFIRMED", summary=user_input)
    found = invitation(
        EmailMessage(
            language="it", subject="", preheader="", letterhead=Letterhead(name=user_input), greeting="",
            paragraphs=(), footer="", calendar=calendar,
        ),
        organizer=SENDER,
        attendee="anna@mail.example",
    )  # fmt: skip
    assert found is not None
    octets = found.ics.encode()
    assert octets.endswith(b"END:VCALENDAR\r\n")
    assert b"\n" not in octets.replace(b"\r\n", b"")
    assert max(len(line) for line in octets.split(b"\r\n")) <= 75
