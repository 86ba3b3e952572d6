"""Lays out an e-mail as HTML and as plain text. Pure.

The HTML is made for the weakest clients. Outlook needs tables, inline styles and a fixed width. Phones get the full
width. Dark mode has its own colours where the client supports a style sheet. Long words break.
"""

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from re import sub
from string import Template

from tablebell.messages import EmailMessage, Letterhead, Link, Tone

PAGE = Template(files("channel_dispatcher").joinpath("channels", "smtp", "layout.html").read_text(encoding="utf-8"))
ACCENTS = {Tone.POSITIVE: "#2f7d53", Tone.NEGATIVE: "#a8443a", Tone.PENDING: "#c98a1b", Tone.NEUTRAL: "#6d655a"}
# Invisible: keeps a list of mails from showing the beginning of the page after a short preheader.
FILLER = "&#847;&zwnj;&nbsp;" * 30
FONT = "Helvetica,Arial,sans-serif"
SIGNATURE = "-- "


def html(message: EmailMessage) -> str:
    """ASCII: other characters are character references, which need no encoding in the mail."""
    page = PAGE.substitute(
        language=escape(message.language),
        subject=escape(message.subject),
        preheader=escape(message.preheader),
        filler=FILLER,
        accent=ACCENTS[message.tone],
        name=escape(message.letterhead.name),
        paragraphs="".join(_paragraph(text) for text in (message.greeting, *message.paragraphs) if text),
        facts=_facts(message.facts),
        links=_links(message.links),
        contact=_row(_paragraph(message.contact), top=24) if message.contact else "",
        letterhead=_letterhead(message.letterhead),
        footer=escape(message.footer),
    )
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def plain_text(message: EmailMessage) -> str:
    letterhead = message.letterhead
    blocks = [
        message.subject,
        message.greeting,
        *message.paragraphs,
        "\n".join(f"{label}: {value}" for label, value in message.facts),
        "\n".join(f"{link.label}: {link.url}" for link in message.links),
        message.contact,
    ]
    signature = [SIGNATURE, letterhead.name, letterhead.address, letterhead.phone, "", message.footer]
    return "\n\n".join(
        [*(block for block in blocks if block), "\n".join(line for line in signature if line is not None)]
    )


def _row(content: str, *, top: int) -> str:
    return (
        f'<tr><td class="pad" style="padding:{top}px 36px 0;word-wrap:break-word;overflow-wrap:anywhere">'
        f"{content}</td></tr>\n"
    )


def _paragraph(text: str) -> str:
    return f'<p class="text" style="margin:0 0 12px;font:16px/24px {FONT};color:#1f1b16">{escape(text)}</p>\n'


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    """A label above its value: side by side, a long value would have no room on a phone. The first fact stands out."""
    cells = "".join(
        f'<p class="muted" style="margin:0;font:13px/18px {FONT};color:#6d655a">{escape(label)}</p>\n'
        f'<p class="text" dir="auto" style="margin:0 0 12px;text-align:left;font:{"" if number else "bold "}17px/24px '
        f'{FONT};color:#1f1b16">{escape(value)}</p>\n'
        for number, (label, value) in enumerate(facts)
    )
    if not cells:
        return ""
    box = (
        '<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" style="table-layout:fixed">'
        '<tr><td class="facts" bgcolor="#f7f4ee" style="padding:16px 18px 4px;background:#f7f4ee;border-radius:8px;'
        f'word-wrap:break-word;overflow-wrap:anywhere">\n{cells}</td></tr></table>'
    )
    return _row(box, top=12)


def _links(links: Iterable[Link]) -> str:
    """The first link is a button, the others are plain links below it."""
    return "".join(_button(link) if number == 0 else _plain_link(link) for number, link in enumerate(links))


def _button(link: Link) -> str:
    box = (
        '<table role="presentation" cellpadding="0" cellspacing="0" border="0"><tr><td class="button" bgcolor="#1f1b16"'
        ' style="padding:14px 26px;background:#1f1b16;border-radius:8px">'
        f'<a href="{escape(link.url)}" style="font:bold 16px/20px {FONT};color:#ffffff;text-decoration:none">'
        f"{escape(link.label)}</a></td></tr></table>"
    )
    return _row(box, top=24)


def _plain_link(link: Link) -> str:
    style = f"font:16px/24px {FONT};color:#1f1b16"
    return _row(f'<a class="text" href="{escape(link.url)}" style="{style}">{escape(link.label)}</a>', top=12)


def _letterhead(letterhead: Letterhead) -> str:
    if not letterhead.address and not letterhead.phone:
        return ""
    address, phone = escape(letterhead.address or ""), escape(letterhead.phone or "")
    lines = [f"<strong>{escape(letterhead.name)}</strong>", address]
    if phone:
        number = sub(r"[^+0-9]", "", letterhead.phone or "")
        lines.append(f'<a class="muted" href="tel:{number}" style="color:#6d655a;white-space:nowrap">{phone}</a>')
    text = "<br>".join(line for line in lines if line)
    block = (
        f'<p class="muted line" style="margin:0;padding-top:18px;border-top:1px solid #e6e0d5;font:14px/21px {FONT};'
        f'color:#6d655a">{text}</p>'
    )
    return _row(block, top=20)
