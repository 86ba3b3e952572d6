"""Renders the texts of a notification for the inbox and for each channel. Pure.

Names and notes are user input: `plain` sanitizes them before they are filled in, and each channel with a syntax of its
own escapes them as well. A filled-in value is never parsed as a template.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from typing import Self, TypeAlias

from notification_fanout.escaping import gsm, plain, slack, truncate
from notification_fanout.language import Language, Template
from tablebell.audience import sees_note
from tablebell.events import EventType, ReservationData
from tablebell.messages import EmailMessage, Message, PushMessage, SlackMessage, SmsMessage
from tablebell.people import Audience, Channel

NAME_LENGTH = 60
NOTE_LENGTH = 500
SMS_LENGTH = 160
SMS_NAME_LENGTHS = (40, 28, 20, 14, 10)

# Placeholder of the greeting in the shared HTML. NUL is unambiguous: `plain` removes it from user input.
GREETING = "\x00"

Escape: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Text:
    """Title and body: stored in the notification, shown by inbox and live frame, and sent by e-mail and push."""

    title: str
    body: str


class NotificationRenderer:
    """Renders one event for one audience in one language. Its recipients share the rendered parts."""

    def __init__(
        self,
        event_type: EventType,
        audience: Audience,
        language: Language,
        data: ReservationData,
        text: Text | None = None,
    ) -> None:
        """`text` is the stored title and body of the notification; they are rendered if it is omitted."""
        self._event_type = event_type
        self._template: Template = language.templates[event_type, audience]
        self._audience = audience
        self._language = language
        self._data = data
        self._fields = Fields(language, data)
        self.text = text or Text(self._fill(self._template.title), self._fill(self._template.body))

    def message(self, channel: Channel, name: str, ids: Mapping[str, str]) -> Message:
        """`name` is the recipient's name; `ids` let an app open the right page."""
        match channel:
            case Channel.EMAIL:
                return self._email(plain(name, NAME_LENGTH))
            case Channel.SMS:
                return SmsMessage(text=self._sms)
            case Channel.PUSH:
                return PushMessage(title=self.text.title, body=self.text.body, data=dict(ids))
            case Channel.SLACK:
                return SlackMessage(text=self._slack)
            case Channel.WEBSOCKET:
                raise ValueError("the live channel has frames, not messages")

    def _fill(self, template: str, escape_name: Escape = str) -> str:
        return template.format_map(self._fields if escape_name is str else self._fields.escaped(escape_name))

    def _email(self, name: str) -> EmailMessage:
        greeting = self._language.greeting.format(recipient=name)
        text, html = self._email_parts
        return EmailMessage(
            subject=self.text.title, text=greeting + text, html=html.replace(GREETING, escape(greeting), 1)
        )

    @cached_property
    def _email_parts(self) -> tuple[str, str]:
        """Text and HTML without the greeting: these are the same for every recipient."""
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
        # A proposal lists the proposed time; its body also mentions the requested one.
        is_proposal = self._event_type is EventType.RESERVATION_POSTPONED and self._data.proposed_time
        time = "proposed" if is_proposal else "when"
        details = {label: self._fields[label] for label in ("restaurant", "customer", time, "party")}
        if self._data.note and sees_note(self._audience):
            details["note"] = plain(self._data.note, NOTE_LENGTH)
        return details

    @cached_property
    def _sms(self) -> str:
        # Shorten the names first: the recipient needs the time and the party size.
        text = ""
        for length in SMS_NAME_LENGTHS:
            text = gsm(self._fill(self._template.sms, partial(truncate, length=length)))
            if len(text) <= SMS_LENGTH:
                return text
        return gsm(truncate(text, SMS_LENGTH))

    @cached_property
    def _slack(self) -> str:
        # Not made from self.text: only the names are escaped, and the text no longer shows where they are.
        return f"*{self._fill(self._template.title, slack)}*\n{self._fill(self._template.body, slack)}"


class Fields(dict[str, str]):
    """The values of template fields, computed on first use: most templates use few of them."""

    def __init__(self, language: Language, data: ReservationData, escape_name: Escape = str) -> None:
        super().__init__()
        self._language = language
        self._data = data
        self._escape_name = escape_name

    def escaped(self, escape_name: Escape) -> Self:
        """The same fields with the names, which are user input, escaped."""
        return type(self)(self._language, self._data, escape_name)

    def __missing__(self, field: str) -> str:
        if field in NAMES:
            value = self._escape_name(plain(getattr(self._data, NAMES[field]), NAME_LENGTH))
        else:
            value = FORMATTED[field](self._language, self._data)
        self[field] = value
        return value


# Fields with user input, by attribute of ReservationData.
NAMES = {"customer": "customer_name", "restaurant": "restaurant_name"}

FORMATTED: Mapping[str, Callable[[Language, ReservationData], str]] = {
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
