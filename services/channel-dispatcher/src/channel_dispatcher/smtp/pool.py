"""Kept SMTP connections: a mail takes one that is idle, or opens one; who uses it decides whether it is kept."""

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urlsplit

from aiosmtplib import SMTP, SMTPHeloError

from channel_dispatcher.smtp.pipelined import ConnectionLost, PipelinedSmtp

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
    """For a connection to be made, and for a whole mail."""

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
        self.timeout = server.timeout
        self._server = server
        self._hostname = hostname
        self._idle: list[tuple[float, PipelinedSmtp]] = []

    async def take(self) -> tuple[PipelinedSmtp, bool]:
        """A line, and whether it has been used before: such a one may turn out to be closed."""
        oldest = time.monotonic() - LONGEST_IDLE
        while self._idle:
            since, line = self._idle.pop()
            if line.is_open and since > oldest:
                return line, True
            line.close()
        return await self.connect(), False

    async def connect(self) -> PipelinedSmtp:
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
        if connection.is_ehlo_or_helo_needed:
            try:
                await connection.ehlo()
            except SMTPHeloError:
                await connection.helo()
        return PipelinedSmtp(connection)

    def give_back(self, line: PipelinedSmtp) -> None:
        if line.is_open:
            self._idle.append((time.monotonic(), line))

    async def close(self) -> None:
        """Say goodbye where somebody listens."""
        while self._idle:
            _, line = self._idle.pop()
            with contextlib.suppress(ConnectionLost, TimeoutError):
                async with asyncio.timeout(1.0):
                    await line.quit()
            line.close()
