"""Renders the texts of a notification for the inbox and for each channel. Pure.

Names and notes are user input: `plain` sanitizes them before they are filled in, and each channel with a syntax of its
own escapes them as well. A filled-in value is never parsed as a template.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from notification_fanout.contact import contact_reason
from notification_fanout.escaping import gsm, plain, slack, truncate
from notification_fanout.fields import NAME_LENGTH, Escape, Fields
from notification_fanout.language import Language, Template
from notification_fanout.mail import MailContext, MailRenderer
from tablebell.events import EventType, ReservationData
from tablebell.messages import EmailMessage, Message, PushMessage, SlackMessage, SmsMessage
from tablebell.people import Audience, Channel

SMS_LENGTH = 160
SMS_NAME_LENGTHS = (40, 28, 20, 14, 10)


@dataclass(frozen=True, slots=True)
class Text:
    """Title and body: stored in the notification, shown by inbox and live frame, and sent by push."""

    title: str
    body: str


def render_text(event_type: EventType, audience: Audience, language: Language, data: ReservationData) -> Text:
    template, fields = language.template(event_type, audience, data), Fields(language, data)
    return Text(template.title.format_map(fields), template.body.format_map(fields))


class NotificationRenderer:
    """Renders one event for one audience in one language. Its recipients share the rendered parts."""

    def __init__(
        self,
        event_type: EventType,
        audience: Audience,
        language: Language,
        data: ReservationData,
        *,
        text: Text,
        context: MailContext,
    ) -> None:
        """`text` is the stored title and body of the notification."""
        self._event_type = event_type
        self._audience = audience
        self._language = language
        self._data = data
        self._text = text
        self._context = context
        self._template: Template = language.template(event_type, audience, data)
        self._fields = Fields(language, data)

    def message(self, channel: Channel, name: str, ids: Mapping[str, str]) -> Message:
        """`name` is the recipient's name; `ids` let an app open the right page."""
        match channel:
            case Channel.EMAIL:
                recipient = plain(name, NAME_LENGTH)
                greeting = self._language.greeting.format(recipient=recipient) if recipient else ""
                return self._email.model_copy(update={"greeting": greeting})
            case Channel.SMS:
                return SmsMessage(text=self._sms)
            case Channel.PUSH:
                return PushMessage(title=self._text.title, body=self._text.body, data=dict(ids))
            case Channel.SLACK:
                return SlackMessage(text=self._slack)
            case Channel.WEBSOCKET:
                raise ValueError("the live channel has frames, not messages")

    def _fill(self, template: str, escape_name: Escape) -> str:
        return template.format_map(self._fields.escaped(escape_name))

    @cached_property
    def _email(self) -> EmailMessage:
        mail = MailRenderer(self._event_type, self._audience, self._language, self._data, self._context)
        return mail.render(self._text.title)

    @cached_property
    def _sms(self) -> str:
        # Shorten the names first: the recipient needs the time, the party size and the telephone number.
        reason = contact_reason(self._event_type, self._audience)
        contact = self._language.contact[reason].for_sms(self._context.contact) if reason else None
        text = ""
        for length in SMS_NAME_LENGTHS:
            filled = self._fill(self._template.sms, partial(truncate, length=length))
            text = gsm(f"{filled} {contact}" if contact else filled)
            if len(text) <= SMS_LENGTH:
                return text
        return gsm(truncate(text, SMS_LENGTH))

    @cached_property
    def _slack(self) -> str:
        # Not made from self._text: only the names are escaped, and the text no longer shows where they are.
        return f"*{self._fill(self._template.title, slack)}*\n{self._fill(self._template.body, slack)}"
