"""Built mails, parsed by the standard library."""

from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest

from channel_dispatcher.channels.smtp.message import (
    InvalidAddress,
    ascii_domain,
    build_mail,
    encode_text,
    parse_mailbox,
)


def built(**changes: Any) -> bytes:
    parts: dict[str, Any] = {
        "sender": parse_mailbox("Tablebell è qui <no-reply@tablebell.example>"),
        "recipient": "anna@mail.example",
        "subject": "Nuova prenotazione",
        "text": "Tavolo per 4",
        "html": "<p>Tavolo per 4</p>",
        "message_id": "17-1@tablebell.example",
        "unsubscribe": "https://tablebell.example/preferences",
    }
    return build_mail(date=datetime(2026, 3, 1, 12, 30, tzinfo=UTC), **(parts | changes))


def read(raw: bytes) -> EmailMessage:
    mail = message_from_bytes(raw, policy=default)
    assert isinstance(mail, EmailMessage)
    assert not mail.defects
    return mail


def content(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n").removesuffix("\n")


def test_a_mail_has_the_headers_of_automatic_mail() -> None:
    mail = read(built())
    assert mail["From"] == "Tablebell è qui <no-reply@tablebell.example>"
    assert mail["To"] == "anna@mail.example"
    assert mail["Date"].datetime == datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert mail["Message-ID"] == "<17-1@tablebell.example>"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["List-Unsubscribe"] == "<https://tablebell.example/preferences>"
    assert mail["MIME-Version"] == "1.0"
    assert mail.get_content_type() == "multipart/alternative"


def test_a_restaurants_name_and_reply_address_are_in_the_headers() -> None:
    sender = parse_mailbox("Tablebell <no-reply@tablebell.example>").named('Osteria "Da Zoë", <b>')
    raw = built(sender=sender, reply_to="tavoli@porto.example")
    mail = read(raw)
    (address,) = mail["From"].addresses
    assert (address.display_name, address.addr_spec) == ('Osteria "Da Zoë", <b>', "no-reply@tablebell.example")
    assert mail["Reply-To"] == "tavoli@porto.example"
    assert read(built())["Reply-To"] is None


@pytest.mark.parametrize("name", ["Porto\r\nBcc: x@y.example", "x" * 400, "🍝" * 90, "  "])
def test_a_restaurants_name_cannot_inject_a_header(name: str) -> None:
    raw = built(sender=parse_mailbox("no-reply@tablebell.example").named(name))
    mail = read(raw)
    assert mail["Bcc"] is None
    assert mail["From"].addresses[0].addr_spec == "no-reply@tablebell.example"
    assert max(len(line) for line in raw.split(b"\r\n")) <= 998


SUBJECTS = [
    "Nuova prenotazione",
    "Prenotazione già confermata: è ok",
    "予約が確定しました " * 20,
    "🍝" * 100,
    "a" * 500,
    "=?utf-8?B?dHJpY2s=?=",
    'say "hi" <x@y.example>',
    "",
]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_any_subject_round_trips(subject: str) -> None:
    raw = built(subject=subject)
    assert read(raw)["Subject"].strip() == subject.strip()
    assert raw.isascii()
    assert max(len(line) for line in raw.split(b"\r\n")) <= 998


TEXTS = [
    "è",
    "line\nline\r\nline\rline",
    ".dot\n..dots",
    "From me\n",
    "x" * 5000,
    "🍝" * 900,
    "tab\t \ntrailing  ",
    "=3D",
    "",
]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("plain\n.text", "7bit"),
        ("x" * 998, "7bit"),
        ("x" * 999, "quoted-printable"),
        ("è", "quoted-printable"),
        ("", "7bit"),
    ],
)
def test_a_part_is_encoded_only_if_necessary(text: str, encoding: str) -> None:
    part = read(built(text=text)).get_body(("plain",))
    assert part is not None
    assert part["Content-Transfer-Encoding"] == encoding


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_round_trips_in_both_parts(text: str) -> None:
    raw = built(text=text, html=text)
    mail = read(raw)
    expected = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    assert content(mail, "plain") == expected
    assert content(mail, "html") == expected
    assert max(len(line) for line in raw.split(b"\r\n")) <= 998
    assert b"\n" not in raw.replace(b"\r\n", b"")


@pytest.mark.parametrize("ending", ["\r\n", "\n", "\r", "\x0b", "\x85", "\u2028", "\x00"])
def test_a_subject_cannot_inject_a_header(ending: str) -> None:
    mail = read(built(subject=f"Hi{ending}Bcc: everybody@mail.example"))
    assert mail["Bcc"] is None
    assert mail["Subject"] == "Hi Bcc: everybody@mail.example"


def test_a_senders_name_cannot_inject_a_header() -> None:
    assert parse_mailbox('"Table\x0bBcc" <a@b.example>').header == "Table Bcc <a@b.example>"
    assert "\r\nBcc" not in parse_mailbox('"Table\r\nBcc: x@y.example" <a@b.example>').header


BAD = [
    "",
    "anna",
    "a@b@c",
    "a@b\r\nRCPT TO:<x@y>",
    "a b@c.example",
    "<a@b.example>",
    "a@",
    "@b",
    "a@b,c@d",
    "a@\udcff",
    "a\x00@b",
]


@pytest.mark.parametrize("address", BAD)
def test_an_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(InvalidAddress):
        ascii_domain(address)


def test_a_non_ascii_domain_becomes_idna() -> None:
    assert ascii_domain("anna@bücher.example") == "anna@xn--bcher-kva.example"
    assert ascii_domain("josé@mail.example") == "josé@mail.example"


def test_encoded_words_do_not_split_characters() -> None:
    for word in encode_text("é" * 200).split("\r\n "):
        assert len(word) <= 75
