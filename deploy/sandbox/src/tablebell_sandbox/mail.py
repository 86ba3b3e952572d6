"""A received e-mail, parsed only when it is read."""

import hashlib
import re
from dataclasses import dataclass
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message as ParsedMail
from typing import Any

from tablebell_sandbox.message import Description

_MESSAGE_ID = re.compile(rb"^message-id:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_FOLD = re.compile(r"\r?\n(?=[ \t])")


@dataclass(frozen=True, slots=True)
class Mail:
    raw: bytes
    sender: str
    tls: str | None
    login: str | None

    @property
    def key(self) -> str:
        """The Message-ID; without one, a hash of the contents."""
        end_of_headers = self.raw.find(b"\r\n\r\n")
        found = _MESSAGE_ID.search(self.raw, 0, end_of_headers if end_of_headers >= 0 else len(self.raw))
        return found[1].decode(errors="replace") if found else hashlib.sha256(self.raw).hexdigest()

    def describe(self) -> Description:
        parsed = message_from_bytes(self.raw)
        headers: dict[str, str] = {}
        for name, value in parsed.raw_items():
            text = _header_text(str(value))
            headers[name] = f"{headers[name]}\n{text}" if name in headers else text
        by_name = {name.lower(): value for name, value in headers.items()}
        return Description(
            sender=by_name.get("from", self.sender),
            subject=by_name.get("subject"),
            text=_body(parsed, "text/plain") or "",
            html=_body(parsed, "text/html"),
            headers=headers,
            message_id=by_name.get("message-id"),
            raw=self.raw.decode(errors="replace"),
            envelope=self._envelope(),
        )

    def _envelope(self) -> dict[str, Any]:
        return {"from": self.sender, "tls": self.tls, "login": self.login}


def _header_text(value: str) -> str:
    """Decodes plain UTF-8 (SMTPUTF8) and encoded words; leaves the rest unchanged."""
    unfolded = _FOLD.sub("", value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return str(make_header(decode_header(unfolded)))
    except (HeaderParseError, LookupError, ValueError):
        return unfolded


def _body(mail: ParsedMail, content_type: str) -> str | None:
    """The first part of that type that is not an attachment."""
    for part in mail.walk():
        if part.get_content_type() != content_type or part.get_content_disposition() == "attachment":
            continue
        payload = part.get_payload(decode=True)
        if not isinstance(payload, bytes):
            continue
        try:
            return payload.decode(part.get_content_charset("utf-8"), "replace")
        except LookupError:
            return payload.decode("utf-8", "replace")
    return None
