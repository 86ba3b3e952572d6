"""The message of each channel, as L2 stores it (`notification_channel_send.message`). Pure.

The other channels store their text as it is sent. An e-mail stores its parts: the dispatcher lays them out as text and
HTML, so that a row has the length of the text and a new layout needs no new rows.
"""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class Tone(StrEnum):
    """The colour of an e-mail."""

    POSITIVE = "POSITIVE"
    NEGATIVE = "NEGATIVE"
    PENDING = "PENDING"
    NEUTRAL = "NEUTRAL"


class Link(Message):
    label: str
    url: str


class Letterhead(Message):
    """The sender as the recipient sees it: at the top and the bottom of an e-mail."""

    name: str
    address: str | None = None
    phone: str | None = None


class CalendarEntry(Message):
    """A calendar entry that the e-mail creates or updates (REQUEST) or deletes (CANCEL), by RFC 5546."""

    method: Literal["REQUEST", "CANCEL"]
    status: Literal["CONFIRMED", "TENTATIVE", "CANCELLED"]
    uid: str
    """The same in all messages about one reservation. The dispatcher adds the domain."""
    sequence: int
    stamp: datetime
    start: datetime
    end: datetime
    summary: str
    attendee: str
    """The recipient's name."""
    description: str | None = None


class EmailMessage(Message):
    """Plain text, without markup: the layout escapes it."""

    language: str
    subject: str
    """Also the heading."""
    preheader: str
    """What a list of mails shows after the subject."""
    letterhead: Letterhead
    tone: Tone = Tone.NEUTRAL
    greeting: str
    paragraphs: tuple[str, ...]
    facts: tuple[tuple[str, str], ...] = ()
    """Labels and values."""
    links: tuple[Link, ...] = ()
    """What the recipient can do; the first one is shown as a button."""
    contact: str | None = None
    """How else to answer."""
    footer: str
    sender_name: str | None = None
    """The display name of From; without it, that of MAIL_FROM."""
    reply_to: str | None = None
    calendar: CalendarEntry | None = None


class SmsMessage(Message):
    text: str


class PushMessage(Message):
    title: str
    body: str
    data: dict[str, str]


class SlackMessage(Message):
    text: str
