"""From an event to the words that a person reads, for each place where they are read. Pure.

The texts are ours, the names and the note are not: these are made plain before they are filled in, and escaped for the
place on top of that. Nothing that was filled in is ever looked at as a template again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from html import escape

from notification_fanout.escaping import cut, gsm, plain, slack
from notification_fanout.language import Language, Template
from tablebell.events import EventType, ReservationData
from tablebell.messages import EmailMessage, Message, PushMessage, SlackMessage, SmsMessage
from tablebell.people import Audience, Channel

LONGEST_NAME = 60
LONGEST_NOTE = 500
SMS_CHARACTERS = 160
SMS_NAME_LENGTHS = (40, 28, 20, 14, 10)
READS_NOTE = (Audience.RESTAURANT, Audience.CUSTOMER)


@dataclass(frozen=True, slots=True)
class Text:
    """What the inbox and the live frame show."""

    title: str
    body: str


class Wording:
    """One event told to one audience in one language; the people of that audience share it."""

    def __init__(self, event_type: EventType, audience: Audience, language: Language, data: ReservationData) -> None:
        self._template: Template = language.templates[event_type, audience]
        self._event_type = event_type
        self._audience = audience
        self._language = language
        self._data = data
        self._names = {
            "customer": plain(data.customer_name, LONGEST_NAME),
            "restaurant": plain(data.restaurant_name, LONGEST_NAME),
        }
        self._made = _made(language, data)
        self.text = Text(self._fill(self._template.title), self._fill(self._template.body))

    def message(self, channel: Channel, reader: str, links: Mapping[str, str]) -> Message:
        """`reader` is the recipient's name; `links` are the ids by which an app opens the right page."""
        match channel:
            case Channel.EMAIL:
                return self._email(reader)
            case Channel.SMS:
                return SmsMessage(text=self._sms())
            case Channel.PUSH:
                return PushMessage(title=self.text.title, body=self.text.body, data=dict(links))
            case Channel.SLACK:
                return SlackMessage(text=self._slack())
            case Channel.WEBSOCKET:
                raise ValueError("the live channel has frames, not messages")

    def _fill(self, template: str, place: Callable[[str], str] = str) -> str:
        return template.format_map(self._made | {name: place(value) for name, value in self._names.items()})

    def _email(self, reader: str) -> EmailMessage:
        language = self._language
        greeting = language.greeting.format(reader=plain(reader, LONGEST_NAME))
        details = [f"{language.labels[label]}: {value}" for label, value in self._details().items()]
        text = "\n\n".join([greeting, self.text.body, "\n".join(details), "-- \n" + language.footer])
        rows = "".join(
            f'<tr><th align="left">{escape(language.labels[label])}</th><td>{escape(value)}</td></tr>'
            for label, value in self._details().items()
        )
        html = (
            f'<!doctype html><html lang="{language.code}"><head><meta charset="utf-8">'
            f"<title>{escape(self.text.title)}</title></head>"
            '<body style="font-family:sans-serif;line-height:1.5;color:#222">'
            f'<h1 style="font-size:1.25em">{escape(self.text.title)}</h1>'
            f"<p>{escape(greeting)}</p><p>{escape(self.text.body)}</p>"
            f'<table cellpadding="4">{rows}</table>'
            f'<p style="font-size:0.8em;color:#666">{escape(language.footer)}</p></body></html>'
        )
        return EmailMessage(subject=self.text.title, text=text, html=html)

    def _details(self) -> dict[str, str]:
        details = {
            "restaurant": self._names["restaurant"],
            "customer": self._names["customer"],
            "when": self._made["when"],
            "party": self._made["party"],
        }
        if self._data.note and self._audience in READS_NOTE:
            details["note"] = plain(self._data.note, LONGEST_NOTE)
        return details

    def _sms(self) -> str:
        # Names are what gives way: the time and the number of people are why the message is sent.
        text = ""
        for longest in SMS_NAME_LENGTHS:
            text = gsm(self._fill(self._template.sms, partial(cut, longest=longest)))
            if len(text) <= SMS_CHARACTERS:
                return text
        return cut(text, SMS_CHARACTERS)

    def _slack(self) -> str:
        return f"*{self._fill(self._template.title, slack)}*\n{self._fill(self._template.body, slack)}"


def _made(language: Language, data: ReservationData) -> dict[str, str]:
    proposed = data.proposed_time or data.slot_time
    previous_time = data.previous_slot_time or data.slot_time
    previous_size = data.previous_party_size or data.party_size
    return {
        "party": language.party(data.party_size),
        "when": language.when(data.slot_time, data.timezone),
        "short": language.short(data.slot_time, data.timezone),
        "proposed": language.when(proposed, data.timezone),
        "proposed_short": language.short(proposed, data.timezone),
        "before": f"{language.party(previous_size)}, {language.when(previous_time, data.timezone)}",
    }
