"""From an event to the words that a person reads, for each place where they are read. Pure.

The texts are ours, the names and the note are not: these are made plain before they are filled in, and escaped for the
place on top of that. Nothing that was filled in is ever looked at as a template again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from typing import Self, TypeAlias

from notification_fanout.audience import reads_note
from notification_fanout.escaping import cut, gsm, plain, slack
from notification_fanout.language import Language, Template
from tablebell.events import EventType, ReservationData
from tablebell.messages import EmailMessage, Message, PushMessage, SlackMessage, SmsMessage
from tablebell.people import Audience, Channel

LONGEST_NAME = 60
LONGEST_NOTE = 500
SMS_CHARACTERS = 160
SMS_NAME_LENGTHS = (40, 28, 20, 14, 10)
PROPOSING = frozenset({EventType.RESERVATION_POSTPONED})

# Where the greeting goes. NUL is in no text: `plain` leaves none in what people typed.
GREETING = "\x00"

Place: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Text:
    """What the inbox and the live frame show."""

    title: str
    body: str


class Wording:
    """One event told to one audience in one language; the people of that audience share it."""

    def __init__(self, event_type: EventType, audience: Audience, language: Language, data: ReservationData) -> None:
        self._event_type = event_type
        self._template: Template = language.templates[event_type, audience]
        self._audience = audience
        self._language = language
        self._data = data
        self._fields = Fields(language, data)
        self.text = Text(self._fill(self._template.title), self._fill(self._template.body))

    def message(self, channel: Channel, reader: str, links: Mapping[str, str]) -> Message:
        """`reader` is the recipient's name; `links` are the ids by which an app opens the right page."""
        match channel:
            case Channel.EMAIL:
                return self._email(plain(reader, LONGEST_NAME))
            case Channel.SMS:
                return SmsMessage(text=self._sms)
            case Channel.PUSH:
                return PushMessage(title=self.text.title, body=self.text.body, data=dict(links))
            case Channel.SLACK:
                return SlackMessage(text=self._slack)
            case Channel.WEBSOCKET:
                raise ValueError("the live channel has frames, not messages")

    def _fill(self, template: str, place: Place = str) -> str:
        return template.format_map(self._fields if place is str else self._fields.at(place))

    def _email(self, reader: str) -> EmailMessage:
        greeting = self._language.greeting.format(reader=reader)
        text, html = self._letter
        return EmailMessage(
            subject=self.text.title, text=greeting + text, html=html.replace(GREETING, escape(greeting), 1)
        )

    @cached_property
    def _letter(self) -> tuple[str, str]:
        """An e-mail's parts as far as they are the same for everybody."""
        language = self._language
        details = {language.labels[label]: value for label, value in self._details().items()}
        lines = "\n".join(f"{label}: {value}" for label, value in details.items())
        rows = "".join(
            f'<tr><th align="left">{escape(label)}</th><td>{escape(value)}</td></tr>'
            for label, value in details.items()
        )
        html = (
            f'<!doctype html><html lang="{language.code}"><head><meta charset="utf-8">'
            f"<title>{escape(self.text.title)}</title></head>"
            '<body style="font-family:sans-serif;line-height:1.5;color:#222">'
            f'<p>{GREETING}</p><h1 style="font-size:1.25em">{escape(self.text.title)}</h1>'
            f"<p>{escape(self.text.body)}</p>"
            f'<table cellpadding="4">{rows}</table>'
            f'<p style="font-size:0.8em;color:#666">{escape(language.footer)}</p></body></html>'
        )
        return f"\n\n{self.text.body}\n\n{lines}\n\n-- \n{language.footer}", html

    def _details(self) -> dict[str, str]:
        # A proposed time is the time to answer to; the text names the one that was asked for.
        time = "proposed" if self._data.proposed_time and self._event_type in PROPOSING else "when"
        details = {label: self._fields[label] for label in ("restaurant", "customer", time, "party")}
        if self._data.note and reads_note(self._audience):
            details["note"] = plain(self._data.note, LONGEST_NOTE)
        return details

    @cached_property
    def _sms(self) -> str:
        # Names are what gives way: the time and the number of people are why the message is sent.
        text = ""
        for longest in SMS_NAME_LENGTHS:
            text = gsm(self._fill(self._template.sms, partial(cut, longest=longest)))
            if len(text) <= SMS_CHARACTERS:
                return text
        return gsm(cut(text, SMS_CHARACTERS))

    @cached_property
    def _slack(self) -> str:
        return f"*{self._fill(self._template.title, slack)}*\n{self._fill(self._template.body, slack)}"


class Fields(dict[str, str]):
    """What the texts are filled with, made when a text asks for it: most ask for little."""

    def __init__(self, language: Language, data: ReservationData, place: Place = str) -> None:
        super().__init__()
        self._language = language
        self._data = data
        self._place = place

    def at(self, place: Place) -> Self:
        """The same with the names, which people typed, made fit for a place."""
        return type(self)(self._language, self._data, place)

    def __missing__(self, name: str) -> str:
        if name in TYPED:
            made = self._place(plain(getattr(self._data, TYPED[name]), LONGEST_NAME))
        else:
            made = MADE[name](self._language, self._data)
        self[name] = made
        return made


# What people typed, by the attribute that holds it.
TYPED = {"customer": "customer_name", "restaurant": "restaurant_name"}

MADE: Mapping[str, Callable[[Language, ReservationData], str]] = {
    "party": lambda language, data: language.party(data.party_size),
    "when": lambda language, data: language.when(data.slot_time, data.timezone),
    "short": lambda language, data: language.short(data.slot_time, data.timezone),
    "proposed": lambda language, data: language.when(data.proposed_time or data.slot_time, data.timezone),
    "proposed_short": lambda language, data: language.short(data.proposed_time or data.slot_time, data.timezone),
    "before": lambda language, data: ", ".join(
        (
            language.party(data.previous_party_size or data.party_size),
            language.when(data.previous_slot_time or data.slot_time, data.timezone),
        )
    ),
}
