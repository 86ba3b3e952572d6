"""Kept SMTP connections: a mail takes one that is idle, or opens one; who uses it decides whether it is kept."""

import contextlib
import ssl
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urlsplit

from aiosmtplib import SMTP, SMTPException

# Servers close idle connections after minutes; asking one that is about to be closed costs a second try.
LONGEST_IDLE = 60.0
SCHEMES = ("smtp", "smtp+starttls", "smtps")


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """smtp:// uses STARTTLS when it is offered, smtp+starttls:// insists on it, smtps:// encrypts from the start."""

    host: str
    port: int
    username: str | None
    password: str | None
    implicit_tls: bool
    starttls: bool | None
    tls: ssl.SSLContext
    timeout: float

    @classmethod
    def from_url(cls, url: str, *, ca_file: str | None, timeout: float) -> Self:
        parts = urlsplit(url)
        implicit = parts.scheme == "smtps"
        required = parts.scheme == "smtp+starttls"
        return cls(
            host=parts.hostname or "",
            port=parts.port or (465 if implicit else 587 if required else 25),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            implicit_tls=implicit,
            starttls=False if implicit else (True if required else None),
            tls=ssl.create_default_context(cafile=ca_file),
            timeout=timeout,
        )


class SmtpPool:
    def __init__(self, server: SmtpServer, hostname: str) -> None:
        self._server = server
        self._hostname = hostname
        self._idle: list[tuple[float, SMTP]] = []

    async def take(self) -> tuple[SMTP, bool]:
        """A connection, and whether it has been used before: such a one may turn out to be closed."""
        oldest = time.monotonic() - LONGEST_IDLE
        while self._idle:
            since, connection = self._idle.pop()
            if connection.is_connected and since > oldest:
                return connection, True
            connection.close()
        return await self.connect(), False

    async def connect(self) -> SMTP:
        """Raises what aiosmtplib raises."""
        server = self._server
        connection = SMTP(
            hostname=server.host,
            port=server.port,
            username=server.username,
            password=server.password,
            use_tls=server.implicit_tls,
            start_tls=server.starttls,
            tls_context=server.tls,
            timeout=server.timeout,
            local_hostname=self._hostname,
        )
        await connection.connect()
        return connection

    def give_back(self, connection: SMTP) -> None:
        if connection.is_connected:
            self._idle.append((time.monotonic(), connection))

    async def close(self) -> None:
        """Say goodbye where somebody listens."""
        while self._idle:
            _, connection = self._idle.pop()
            with contextlib.suppress(SMTPException, OSError):
                await connection.quit(timeout=1.0)
            connection.close()
