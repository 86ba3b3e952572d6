"""The SMTP server: aiosmtpd's protocol on the sandbox's own loop, with the hot path made lean.

Used as the sink of benches, it must cost less than what it measures. Of a mail's 0.6 ms in plain aiosmtpd,
a third went into its full RFC 5322 parser for two plain addresses and a third into reading the body line by line.
"""

import asyncio
import re
import ssl
from typing import AnyStr

from aiosmtpd.smtp import SMTP

from tablebell_sandbox.mail_handler import MailHandler

MAX_MAIL_BYTES = 16 * 1024 * 1024
END_OF_DATA = b"\r\n.\r\n"
CHUNK = re.compile(r"(\d{1,12})(?: +(LAST))?", re.IGNORECASE)
PLAIN_ADDRESS = re.compile(r"<([\w.!#$%&'*+/=?^`{|}~-]+@[\w.-]+)>(.*)", re.ASCII | re.DOTALL)


class MailConnection(SMTP):
    """One client. It is in `connections` from its first byte to its last."""

    # aiosmtpd takes this as its stream's limit too, and a body is read in one piece.
    line_length_limit = MAX_MAIL_BYTES

    def __init__(
        self,
        handler: MailHandler,
        connections: set["MailConnection"],
        starttls: ssl.SSLContext | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(
            handler,
            hostname="sandbox.invalid",
            ident="ESMTP",
            data_size_limit=MAX_MAIL_BYTES,
            enable_SMTPUTF8=True,
            tls_context=starttls,
            auth_require_tls=False,
            authenticator=handler.authenticate,
            loop=loop,
        )
        self._handler = handler
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        super().connection_lost(error)

    @property
    def tls_version(self) -> str | None:
        ssl_object = self.transport.get_extra_info("ssl_object") if self.transport else None
        return ssl_object.version() if ssl_object else None

    async def _handle_client(self) -> None:
        problem = await self._handler.greet(self)
        if problem is None:
            await super()._handle_client()
        else:
            await self.push(problem)
            self._writer.transport.close()

    async def hang_up(self) -> None:
        """Never returns, as `stay_silent`."""
        self._writer.transport.abort()
        await self.stay_silent()

    async def stay_silent(self) -> None:
        """Never returns: the loss of the connection cancels the task that serves it."""
        await self.loop.create_future()

    async def check_auth_needed(self, caller_method: str) -> bool:  # noqa: ARG002 - aiosmtpd logs it
        """Asked here rather than of aiosmtpd, which warns of a login without TLS; on loopback that is fine."""
        if self._handler.login_required and not (self.session and self.session.authenticated):
            await self.push("530 5.7.0 Authentication required")
            return True
        return False

    async def push(self, status: AnyStr) -> None:
        await super().push(status)
        if status[:3] in ("421", b"421") and self.transport is not None:
            self.transport.close()

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """Plain addresses the short way, all others through aiosmtpd's parser."""
        plain = PLAIN_ADDRESS.fullmatch(arg)
        return (plain[1], plain[2]) if plain else super()._getaddr(arg)

    async def smtp_STARTTLS(self, arg: str) -> None:  # noqa: N802
        await super().smtp_STARTTLS(arg)
        if self._tls_protocol is not None and self.session is not None and self.session.ssl is None:
            # Cut in the middle of the handshake, of which asyncio tells nobody.
            self.connection_lost(None)

    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802
        if await self.check_helo_needed() or await self.check_auth_needed("DATA"):
            return
        if self.envelope is None or not self.envelope.rcpt_tos:
            await self.push("503 5.5.1 Error: need RCPT command")
            return
        if arg:
            await self.push("501 5.5.4 Syntax: DATA")
            return
        # An empty mail ends in ".\r\n" alone; with a line break in front every mail ends alike.
        self._reader.feed_data(b"\r\n")
        await self.push("354 End data with <CR><LF>.<CR><LF>")
        await self._finish(await self._read_data())

    async def smtp_BDAT(self, arg: str | None) -> None:  # noqa: N802
        """RFC 3030: so many bytes of the mail, whatever they are, and the answer after the last of them."""
        chunk = CHUNK.fullmatch(arg or "")
        if chunk is None:
            await self.push("501 5.5.4 Syntax: BDAT size [LAST]")
            return
        size = int(chunk[1])
        piece = await self._read_chunk(size)
        if await self.check_helo_needed() or await self.check_auth_needed("BDAT"):
            return
        if self.envelope is None or not self.envelope.rcpt_tos:
            await self.push("503 5.5.1 Error: need RCPT command")
            return
        content = (self.envelope.original_content or b"") + (piece or b"")
        if piece is None or len(content) > MAX_MAIL_BYTES:
            await self._finish(None)
        elif chunk[2]:
            await self._finish(content)
        else:
            self.envelope.original_content = content
            await self.push(f"250 2.0.0 {size} octets received")

    async def _read_chunk(self, size: int) -> bytes | None:
        """The chunk, or None after reading past one that is too big."""
        if size <= MAX_MAIL_BYTES:
            return await self._reader.readexactly(size)
        while size > 0:
            size -= len(await self._reader.readexactly(min(size, MAX_MAIL_BYTES)))
        return None

    async def _finish(self, content: bytes | None) -> None:
        if self.envelope is None:
            raise RuntimeError("a mail without an envelope")
        if content is None:
            status = "552 5.3.4 Message too big"
        else:
            self.envelope.content = self.envelope.original_content = content
            status = await self._call_handler_hook("DATA")
        self.envelope = self._create_envelope()
        await self.push(status)

    async def _read_data(self) -> bytes | None:
        """The mail without its dot-stuffing, or None after reading past one that is too big."""
        too_big = False
        while True:
            try:
                content = await self._reader.readuntil(END_OF_DATA)
                break
            except asyncio.LimitOverrunError as error:
                too_big = True
                await self._reader.readexactly(error.consumed)
        return None if too_big else content.replace(b"\r\n.", b"\r\n")[2:-2]
