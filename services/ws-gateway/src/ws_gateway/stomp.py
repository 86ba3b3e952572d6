"""STOMP 1.2 on the wire, with what 1.1 and 1.0 do otherwise. Pure.

A frame is a command, headers, an empty line, a body and a NUL. Bytes come in any portions: half a frame, or three.
Line feeds between frames are heart-beats. CONNECT and CONNECTED are never escaped, so that 1.0 can read them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

VERSIONS = ("1.2", "1.1", "1.0")
MOST_HEADERS = 32

_ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"}
_UNESCAPES = {escaped: plain for plain, escaped in _ESCAPES.items()}
_BARE = {"CONNECT", "CONNECTED", "STOMP"}


class BadFrame(Exception):
    """What came is not STOMP."""


@dataclass(frozen=True, slots=True)
class StompFrame:
    command: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Parser:
    """Gives back the frames that each portion completes; after a BadFrame it is of no further use."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._limit = max_frame_bytes
        self._pending = bytearray()
        self.escaped = True
        """1.0 knows no escapes: a backslash is a backslash."""

    def feed(self, data: bytes) -> list[StompFrame]:
        self._pending += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        if len(self._pending) > self._limit:
            raise BadFrame(f"a frame is longer than {self._limit} bytes")
        return frames

    def _next(self) -> StompFrame | None:
        self._skip_heart_beats()
        head_end, body_start = self._find_body()
        if body_start < 0:
            if b"\0" in self._pending:
                raise BadFrame("a frame ends within its headers")
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
            raise BadFrame(f"a frame is longer than {self._limit} bytes")
        if len(self._pending) <= end:
            return -1
        if self._pending[end] != 0:
            raise BadFrame("a body is longer than its content-length")
        return end


def encode(command: str, headers: Mapping[str, str], body: bytes = b"", version: str = "1.2") -> bytes:
    escape = _as_is if command in _BARE or version == "1.0" else _escape
    lines = [command, *(f"{escape(name)}:{escape(value)}" for name, value in headers.items())]
    if body:
        lines.append(f"content-length:{len(body)}")
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


def _read_head(head: bytes, *, escaped: bool) -> tuple[str, dict[str, str]]:
    try:
        command, *lines = head.decode().split("\n")
    except UnicodeDecodeError:
        raise BadFrame("headers are not UTF-8") from None
    command = command.removesuffix("\r")
    if not re.fullmatch(r"[A-Z]{3,16}", command):
        raise BadFrame("a frame begins with no command")
    if len(lines) > MOST_HEADERS:
        raise BadFrame("a frame has too many headers")
    unescape = _unescape if escaped and command not in _BARE else _as_is
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.removesuffix("\r").partition(":")
        if not colon or not name:
            raise BadFrame("a header has no name or no colon")
        headers.setdefault(unescape(name), unescape(value))  # of repeated headers the first counts
    return command, headers


def _as_is(text: str) -> str:
    return text


def _escape(text: str) -> str:
    return re.sub(r"[\\\r\n:]", lambda match: _ESCAPES[match[0]], text)


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        try:
            return _UNESCAPES[match[0]]
        except KeyError:
            raise BadFrame("a header has an escape that does not exist") from None

    return re.sub(r"\\.?", plain, text)
