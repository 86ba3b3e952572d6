"""Parses DATABASE_URL, which may name several servers. Pure.

The form is libpq's: `postgresql://user:password@host1:5432,host2:5432/database?target_session_attrs=read-write`.
"""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

SHAPE = "should look like postgresql://user:password@host:port/…"
SERVER = re.compile(r"(?:(?P<name>[^][:@]+)|\[(?P<address>[0-9a-fA-F:.%]+)\])(?::(?P<port>[0-9]{1,5}))?")
DEFAULT_PORT = 5432
CONNECT_SECONDS = 10.0
# The four other values of libpq accept a standby, which refuses writes.
TARGETS = ("read-write", "primary")


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    dsn: str
    """The URL without the two options below, which are passed as arguments."""
    servers: tuple[Server, ...]
    target_session_attrs: str
    connect_seconds: float
    """For each server."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError with a message that contains no part of the password."""
        parts = urlsplit(text)
        _, _, hosts = parts.netloc.rpartition("@")
        if parts.scheme not in ("postgresql", "postgres") or not hosts:
            raise ValueError(SHAPE)
        options = _options(parts)
        return cls(
            servers=tuple(_server(each) for each in hosts.split(",")),
            target_session_attrs=_target(options.pop("target_session_attrs", TARGETS[0])),
            connect_seconds=_seconds(options.pop("connect_timeout", str(CONNECT_SECONDS))),
            dsn=parts._replace(query=urlencode(options)).geturl(),
        )


def _options(parts: SplitResult) -> dict[str, str]:
    try:
        return dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ValueError("after the question mark should be name=value pairs, joined by &") from None


def _server(text: str) -> Server:
    found = SERVER.fullmatch(text)
    if found is None or not 1 <= int(found["port"] or DEFAULT_PORT) <= 65_535:
        raise ValueError("every server should look like host or host:port, with one comma between two of them")
    return Server(unquote(found["name"] or found["address"]), int(found["port"] or DEFAULT_PORT))


def _target(value: str) -> str:
    if value not in TARGETS:
        raise ValueError("target_session_attrs should be read-write or primary: the services write")
    return value


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 600:  # also false for nan
        raise ValueError("connect_timeout should be a number of seconds, 600 at most")
    return seconds
