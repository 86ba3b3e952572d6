"""A pool of SMTP connections. A mail takes an idle one or opens one; the caller returns it if it is still usable."""

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import unquote, urlsplit

from aiosmtplib import SMTP, SMTPException, SMTPHeloError

from channel_dispatcher.channels.smtp.pipelined import ConnectionLost, PipelinedSmtp
from tablebell.settings import is_loopback

# Servers close idle connections after minutes; using one that is about to close costs a second try.
LONGEST_IDLE = 60.0
SCHEMES = ("smtp", "smtp+starttls", "smtps")


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """smtp:// uses STARTTLS if offered, smtp+starttls:// requires it, smtps:// is TLS from the start.

    A login is sent only over TLS, unless the host is this machine or a setting allows it.
    """

    host: str
    port: int
    username: str | None
    password: str | None
    implicit_tls: bool
    starttls: bool | None
    tls: ssl.SSLContext
    timeout: float
    """In seconds, for connecting and for a whole mail."""
    allow_cleartext_login: bool

    @classmethod
    def from_url(cls, url: str, *, ca_file: str | None, timeout: float, allow_cleartext_login: bool = False) -> Self:
        """A login to this machine needs no encryption."""
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
            allow_cleartext_login=allow_cleartext_login or is_loopback(parts.hostname or ""),
        )


class LoginNotEncrypted(SMTPException):
    """The server offers no STARTTLS, so the login would be readable on its way."""


class SmtpPool:
    def __init__(self, server: SmtpServer, hostname: str) -> None:
        self.timeout = server.timeout
        self._server = server
        self._hostname = hostname
        self._idle: list[tuple[float, PipelinedSmtp]] = []

    async def acquire(self) -> tuple[PipelinedSmtp, bool]:
        """Returns a connection, and whether it was used before: the server may have closed such a one."""
        oldest = time.monotonic() - LONGEST_IDLE
        while self._idle:
            since, connection = self._idle.pop()
            if connection.is_open and since > oldest:
                return connection, True
            connection.close()
        return await self.connect(), False

    async def connect(self) -> PipelinedSmtp:
        """Raises the exceptions of aiosmtplib, and LoginNotEncrypted."""
        server = self._server
        client = SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.implicit_tls,
            start_tls=server.starttls,
            tls_context=server.tls,
            timeout=server.timeout,
            local_hostname=self._hostname,
        )
        await client.connect()
        try:
            if client.is_ehlo_or_helo_needed:
                await _greet(client)
            if server.username is not None:
                await self._login(client, server.username, server.password or "")
        except BaseException:
            client.close()
            raise
        return PipelinedSmtp(client)

    async def _login(self, client: SMTP, username: str, password: str) -> None:
        if client.get_transport_info("sslcontext") is None and not self._server.allow_cleartext_login:
            raise LoginNotEncrypted(
                "the server does not offer STARTTLS, and ALLOW_CLEARTEXT_CREDENTIALS is false: the login is not sent"
            )
        await client.login(username, password)

    def release(self, connection: PipelinedSmtp) -> None:
        if connection.is_open:
            self._idle.append((time.monotonic(), connection))

    async def close(self) -> None:
        """Sends QUIT on the open connections and closes them."""
        while self._idle:
            _, connection = self._idle.pop()
            with contextlib.suppress(ConnectionLost, TimeoutError):
                async with asyncio.timeout(1.0):
                    await connection.quit()
            connection.close()


async def _greet(client: SMTP) -> None:
    try:
        await client.ehlo()
    except SMTPHeloError:
        await client.helo()
