"""Writes the sample messages: each mail as HTML and as a file for a mail program, and an index page with all texts."""

from datetime import UTC, datetime
from html import escape
from itertools import groupby
from pathlib import Path

from channel_dispatcher.channels.email import invitation
from channel_dispatcher.channels.smtp.layout import html, plain_text
from channel_dispatcher.channels.smtp.message import build_mail, parse_mailbox
from tablebell.messages import EmailMessage, Message, PushMessage, SlackMessage, SmsMessage
from tablebell_tools.preview.samples import Sample, SampleMessages, sample_messages

SENDER = parse_mailbox("Tablebell <no-reply@tablebell.example>")
RECIPIENT = "anna.bianchi@mail.example"
INDEX = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Messages of Tablebell</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;margin:24px;color-scheme:light dark}
.languages{display:flex;gap:20px;overflow-x:auto}
article{flex:0 0 340px}
iframe{width:340px;height:640px;border:1px solid #8884;border-radius:6px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#8881;padding:10px;border-radius:6px}
</style></head><body><h1>Messages of Tablebell</h1>
"""


def preview(folder: Path, sample: Sample) -> Path:
    """Return the path of the index page."""
    folder.mkdir(parents=True, exist_ok=True)
    page = INDEX
    for (event_type, audience), group in groupby(
        sample_messages(sample), lambda each: (each.event_type, each.audience)
    ):
        articles = "".join(_article(folder, each) for each in group)
        page += f'<h2>{event_type}: {audience}</h2>\n<div class="languages">{articles}</div>\n'
    index = folder / "index.html"
    index.write_text(page + "</body></html>\n", encoding="utf-8")
    return index


def _article(folder: Path, each: SampleMessages) -> str:
    shown = "".join(f"<h4>{channel}</h4>{_show(folder, each.name, one)}" for channel, one in each.messages.items())
    return f"<article><h3>{each.language}</h3>{shown}</article>\n"


def _show(folder: Path, name: str, message: Message) -> str:
    match message:
        case EmailMessage():
            return _write_mail(folder, name, message)
        case SmsMessage():
            return f"<pre>{escape(message.text)}</pre><p>{len(message.text)} of 160 characters</p>"
        case PushMessage():
            return f"<pre><b>{escape(message.title)}</b>\n{escape(message.body)}</pre>"
        case SlackMessage():
            return f"<pre>{escape(message.text)}</pre>"
        case _:
            raise TypeError(f"cannot show a {type(message).__name__}")


def _write_mail(folder: Path, name: str, message: EmailMessage) -> str:
    text, page = plain_text(message), html(message)
    mail = build_mail(
        sender=SENDER.named(message.sender_name),
        recipient=RECIPIENT,
        subject=message.subject,
        text=text,
        html=page,
        message_id=f"{name}@{SENDER.domain}",
        date=datetime.now(UTC),
        unsubscribe="https://tablebell.example/preferences",
        reply_to=message.reply_to,
        invitation=invitation(message, organizer=SENDER, attendee=RECIPIENT),
    )
    (folder / f"{name}.html").write_text(page, encoding="utf-8")
    (folder / f"{name}.eml").write_bytes(mail)
    headers = f"From: {message.sender_name or 'Tablebell'}\nSubject: {message.subject}\nPreheader: {message.preheader}"
    return (
        f'<iframe src="{name}.html" loading="lazy" title="{name}"></iframe>'
        f'<p><a href="{name}.html">HTML</a> · <a href="{name}.eml">mail file</a></p>'
        f"<pre>{escape(headers)}</pre><pre>{escape(text)}</pre>"
    )
