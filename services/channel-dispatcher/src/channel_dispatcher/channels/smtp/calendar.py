"""Writes a calendar entry (RFC 5545) as an invitation or a cancellation by e-mail (RFC 5546, RFC 6047). Pure.

The organizer is the address that sends the mail, since calendars accept updates from it only. No reply is requested
(RSVP=FALSE): nobody may read the organizer's mailbox.
"""

import re
from datetime import UTC, datetime

from tablebell.messages import CalendarEntry

OCTETS_PER_LINE = 75
ATTENDANCE = "CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT=ACCEPTED;RSVP=FALSE"
ESCAPED = re.compile(r"[\\;,]")
CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def ics(entry: CalendarEntry, *, organizer: str, organizer_name: str, attendee: str, location: str) -> str:
    """`organizer` and `attendee` are e-mail addresses."""
    domain = organizer.rpartition("@")[2]
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Tablebell//Reservations//EN",
        "CALSCALE:GREGORIAN",
        f"METHOD:{entry.method}",
        "BEGIN:VEVENT",
        f"UID:{entry.uid}@{domain}",
        f"SEQUENCE:{entry.sequence}",
        f"DTSTAMP:{_utc(entry.stamp)}",
        f"DTSTART:{_utc(entry.start)}",
        f"DTEND:{_utc(entry.end)}",
        f"SUMMARY:{_text(entry.summary)}",
        f"LOCATION:{_text(location)}",
        *([f"DESCRIPTION:{_text(entry.description)}"] if entry.description else []),
        f"STATUS:{entry.status}",
        f"ORGANIZER;CN={_parameter(organizer_name)}:mailto:{organizer}",
        f"ATTENDEE;CN={_parameter(entry.attendee)};{ATTENDANCE}:mailto:{attendee}",
        "END:VEVENT",
        "END:VCALENDAR",
    ]
    return "".join(f"{_fold(line)}\r\n" for line in lines)


def _utc(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(text: str) -> str:
    return ESCAPED.sub(lambda match: "\\" + match.group(), CONTROL.sub(" ", text))


def _parameter(text: str) -> str:
    """A quoted parameter value, which cannot contain a quotation mark."""
    return '"' + CONTROL.sub(" ", text).replace('"', "'") + '"'


def _fold(line: str) -> str:
    """Lines of at most 75 octets, without splitting a character."""
    if len(line) <= OCTETS_PER_LINE and line.isascii():
        return line
    folded, octets = "", 0
    for character in line:
        size = len(character.encode("utf-8", "replace"))
        if octets + size > OCTETS_PER_LINE:
            folded, octets = folded + "\r\n ", 1
        folded, octets = folded + character, octets + size
    return folded
