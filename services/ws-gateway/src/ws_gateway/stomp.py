"""The STOMP 1.2 wire format, with the differences of 1.1 and 1.0. Pure.

A frame is a command, headers, an empty line, a body and a NUL. A chunk of data may hold half a frame or several.
Line feeds between frames are heart-beats. CONNECT and CONNECTED are never escaped, so that 1.0 can read them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

VERSIONS = ("1.2", "1.1", "1.0")
MAX_HEADERS = 32

_ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_UNESCAPES = {escaped: plain for plain, escaped in _ESCAPES.items()}
_UNESCAPED_COMMANDS = {"CONNECT", "CONNECTED", "STOMP"}


class BadFrame(Exception):
    """The data is not valid STOMP."""


@dataclass(frozen=True, slots=True)
class StompFrame:
    command: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Parser:
    """`feed` returns the frames that a chunk completes. Do not use the parser after a BadFrame."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._limit = max_frame_bytes
        self._pending = bytearray()
        self.escaped = True
        """False for 1.0, which has no escapes."""

    def feed(self, data: bytes) -> list[StompFrame]:
        self._pending += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        if len(self._pending) > self._limit:
            raise BadFrame(f"the frame is longer than {self._limit} bytes")
        return frames

    def _next(self) -> StompFrame | None:
        self._skip_heart_beats()
        head_end, body_start = self._find_body()
        if body_start < 0:
            if b"\0" in self._pending:
                raise BadFrame("the frame ends inside its headers")
            return None
        command, headers = _read_head(bytes(self._pending[:head_end]), escaped=self.escaped)
        body_end = self._find_end(body_start, headers.get("content-length"))
        if body_end < 0:
            return None
        frame = StompFrame(command, headers, bytes(self._pending[body_start:body_end]))
        del self._pending[: body_end + 1]
        return frame

    def _skip_heart_beats(self) -> None:
        rest = self._pending.lstrip(b"\r\n")
        del self._pending[: len(self._pending) - len(rest)]

    def _find_body(self) -> tuple[int, int]:
        match = re.search(rb"\r?\n\r?\n", self._pending)
        nul = self._pending.find(b"\0")
        if match is None or 0 <= nul < match.start():
            return -1, -1
        return match.span()

    def _find_end(self, start: int, content_length: str | None) -> int:
        if content_length is None:
            return self._pending.find(b"\0", start)
        if not re.fullmatch(r"\d{1,9}", content_length, re.ASCII):
            raise BadFrame("content-length is not a number")
        end = start + int(content_length)
        if end > self._limit:
            raise BadFrame(f"the frame is longer than {self._limit} bytes")
        if len(self._pending) <= end:
            return -1
        if self._pending[end] != 0:
            raise BadFrame("the body is longer than its content-length")
        return end


def encode(command: str, headers: Mapping[str, str], body: bytes = b"", version: str = "1.2") -> bytes:
    escape = _unchanged if command in _UNESCAPED_COMMANDS or version == "1.0" else _escape
    lines = [command, *(f"{escape(name)}:{escape(value)}" for name, value in headers.items())]
    if body:
        lines.append(f"content-length:{len(body)}")
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


def _read_head(head: bytes, *, escaped: bool) -> tuple[str, dict[str, str]]:
    try:
        command, *lines = head.decode().split("\n")
    except UnicodeDecodeError:
        raise BadFrame("the headers are not UTF-8") from None
    command = command.removesuffix("\r")
    if not re.fullmatch(r"[A-Z]{3,16}", command):
        raise BadFrame("the frame does not start with a command")
    if len(lines) > MAX_HEADERS:
        raise BadFrame("the frame has too many headers")
    unescape = _unescape if escaped and command not in _UNESCAPED_COMMANDS else _unchanged
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.removesuffix("\r").partition(":")
        if not colon or not name:
            raise BadFrame("a header has no name or no colon")
        headers.setdefault(unescape(name), unescape(value))  # the first of repeated headers counts
    return command, headers


def _unchanged(text: str) -> str:
    return text


def _escape(text: str) -> str:
    return re.sub(r"[\\\r\n:]", lambda match: _ESCAPES[match[0]], text)


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        try:
            return _UNESCAPES[match[0]]
        except KeyError:
            raise BadFrame("a header has an unknown escape") from None

    return re.sub(r"\\.?", plain, text)
