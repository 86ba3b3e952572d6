"""The HTML and the text of an e-mail."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from channel_dispatcher.channels.smtp.layout import html, plain_text
from tablebell.messages import EmailMessage, Letterhead, Link, Tone

MESSAGE = EmailMessage(
    language="it",
    subject="La tua prenotazione è confermata",
    preheader="Venerdì 20 novembre · 4 persone",
    letterhead=Letterhead(name="Trattoria del Porto", address="Calata 12, Genova", phone="+39 010 555 0110"),
    tone=Tone.POSITIVE,
    greeting="Ciao Anna,",
    paragraphs=("Ti aspettiamo.", "A presto!"),
    facts=(("Quando", "Venerdì 20 novembre 2026 alle 20:30"), ("Tavolo per", "4 persone")),
    contact="Per modificare, chiamaci.",
    footer="Inviata con Tablebell.",
)
LINKS = (
    Link(label="Conferma", url="https://t.example/g/a?b=1&c=2"),
    Link(label="Rifiuta", url="https://t.example/g/d"),
)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$subject ${x} {0} %s",
    "x" * 400,
    "مرحبا 🍝",
    "</td></tr>",
]
VOID = {"meta", "br", "img"}


class Outline(HTMLParser):
    """The elements of a page; fails if they are not nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    assert parser.open == []
    return parser


def visible(page: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", page.partition("</head>")[2]))


def test_the_html_and_the_text_say_the_same() -> None:
    page, text = visible(html(MESSAGE)), plain_text(MESSAGE)
    said = [
        MESSAGE.subject, MESSAGE.greeting, *MESSAGE.paragraphs, *(part for fact in MESSAGE.facts for part in fact),
        MESSAGE.contact, "Trattoria del Porto", "Calata 12, Genova", "+39 010 555 0110", MESSAGE.footer,
    ]  # fmt: skip
    for each in said:
        assert each is not None
        assert each in page
        assert each in text


def test_the_preheader_comes_first_and_is_hidden() -> None:
    body = unescape(html(MESSAGE)).partition("<body")[2]
    assert re.search(r'<div style="display:none[^>]*>Venerdì 20 novembre · 4 persone', body)
    assert visible(html(MESSAGE)).split()[0] == "Venerdì"
    assert MESSAGE.preheader not in plain_text(MESSAGE)


def test_the_page_supports_dark_mode_and_outlook_and_loads_nothing() -> None:
    page = html(MESSAGE)
    assert '<meta name="color-scheme" content="light dark">' in page
    assert "@media (prefers-color-scheme:dark)" in page
    assert "<!--[if mso]>" in page
    parsed = outline(page)
    assert parsed.links == ["tel:+390105550110"]
    assert not set(parsed.tags) & {"img", "script", "link", "form", "iframe"}


def test_the_page_is_ascii_for_every_mail_server() -> None:
    assert html(MESSAGE.model_copy(update={"subject": "è 🍝 \ud800"})).isascii()


@pytest.mark.parametrize("user_input", HOSTILE)
def test_user_input_adds_no_element(user_input: str) -> None:
    message = MESSAGE.model_copy(
        update={
            "subject": user_input,
            "preheader": user_input,
            "letterhead": Letterhead(name=user_input, address=user_input, phone=user_input),
            "greeting": user_input,
            "paragraphs": (user_input, user_input),
            "facts": ((user_input, user_input), (user_input, user_input)),
            "contact": user_input,
            "footer": user_input,
        }
    )
    page = html(message)
    assert outline(page).tags == outline(html(MESSAGE)).tags
    assert user_input in visible(page)
    assert user_input in plain_text(message)


def test_links_are_a_button_and_plain_links_in_the_html_and_lines_in_the_text() -> None:
    message = MESSAGE.model_copy(update={"links": LINKS})
    parsed = outline(html(message))
    assert parsed.links[:2] == [link.url for link in LINKS]
    assert html(message).count('class="button"') == 1
    assert "\nConferma: https://t.example/g/a?b=1&c=2\nRifiuta: https://t.example/g/d\n" in plain_text(message)


def test_a_part_that_is_missing_leaves_no_gap() -> None:
    message = MESSAGE.model_copy(
        update={"facts": (), "contact": None, "greeting": "", "letterhead": Letterhead(name="Tablebell")}
    )
    text = plain_text(message)
    assert "\n\n\n" not in text
    assert text.endswith("-- \nTablebell\n\nInviata con Tablebell.")
    assert 'class="facts"' not in html(message)
    assert 'href="tel:' not in html(message)
