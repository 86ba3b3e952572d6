"""An open SMTP connection that sends a mail in as few round trips as the server allows.

aiosmtplib connects, negotiates TLS and logs in; then this protocol takes over the transport. With pipelining (RFC 2920)
and chunking (RFC 3030) a mail costs one round trip instead of four. aiosmtplib cannot pipeline: it discards replies
that arrive before it waits for them.

The figure that justifies this code is e-mails/s in docs/performance.md: with pipelining and its database work, the
dispatcher reaches 0.86 of a bare aiosmtplib loop, which has none (bar: 0.7).
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import cast

from aiosmtplib import SMTP, SMTPResponse

from tablebell.outage import describe

LONGEST_REPLY = 64 * 1024
NEGATIVE = 400
START_OF_MAIL = 354
END_OF_MAIL = b".\r\n"
REPLY_LINE = re.compile(rb"(\d{3})(?:([- ])(.*?))?\r?")
LEADING_DOT = re.compile(rb"^\.", re.MULTILINE)
CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


class ConnectionLost(Exception):
    """The connection ended before all replies; `received` is how many arrived."""

    def __init__(self, received: int, reason: str) -> None:
        super().__init__(reason)
        self.received = received


class PipelinedSmtp(asyncio.Protocol):
    """Sends one mail at a time. After a timeout the caller closes it. Methods raise ConnectionLost."""

    def __init__(self, client: SMTP) -> None:
        """`client` is connected and greeted, and has no other user."""
        self.takes_utf8 = client.supports_extension("smtputf8")
        self._pipelining = client.supports_extension("pipelining")
        self._chunking = client.supports_extension("chunking")
        self._client = client
        self._transport = cast("asyncio.Transport", client.transport)
        self._transport.set_protocol(self)
        self._rest = b""
        self._lines: list[bytes] = []
        self._replies: list[SMTPResponse] = []
        self._expected = 0
        self._complete: asyncio.Future[None] | None = None
        self._reason = ""

    @property
    def is_open(self) -> bool:
        return not self._reason and not self._transport.is_closing()

    async def send(self, envelope: Sequence[bytes], mail: bytes) -> list[SMTPResponse]:
        """Returns the replies to the commands of the envelope and to the mail, up to the first negative one.

        Each line of the mail ends in CR LF.
        """
        if self._pipelining and self._chunking:
            return await self._send_commands((*envelope, b"BDAT %d LAST" % len(mail)), mail)
        replies = await self._send_commands((*envelope, b"DATA"))
        if replies[-1].code == START_OF_MAIL:
            replies[-1:] = await self._exchange(LEADING_DOT.sub(b"..", mail) + END_OF_MAIL, 1, before=len(envelope))
        return replies

    async def reset(self) -> None:
        await self._send_commands((b"RSET",))

    async def quit(self) -> None:
        await self._send_commands((b"QUIT",))

    async def _send_commands(self, commands: Sequence[bytes], attached: bytes = b"") -> list[SMTPResponse]:
        """Returns the replies, up to the first negative one."""
        if any(CONTROL.search(command) for command in commands):
            raise ValueError("a command has control characters")
        if self._pipelining:
            received = await self._exchange(b"\r\n".join((*commands, attached)), len(commands))
            replies = list(_until_negative(received))
            if len(replies) < len(received) and received[-1].code == START_OF_MAIL:
                # The server waits for data without a valid recipient: send an empty mail and ignore the rejection.
                await self._exchange(END_OF_MAIL, 1)
            return replies
        replies = []
        for command in commands:
            replies += await self._exchange(command + b"\r\n", 1, before=len(replies))
            if replies[-1].code >= NEGATIVE:
                break
        return replies

    def close(self) -> None:
        self._client.close()

    async def _exchange(self, data: bytes, expected: int, before: int = 0) -> list[SMTPResponse]:
        """Returns `expected` replies, or fewer if the server closed the connection after a negative one."""
        if not self.is_open:
            raise ConnectionLost(before, self._reason or "it is closed")
        self._replies, self._expected = [], expected
        self._complete = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(data)
            await self._complete
        finally:
            self._expected, self._complete = 0, None
        received, self._replies = self._replies, []
        if len(received) < expected and all(reply.code < NEGATIVE for reply in received):
            raise ConnectionLost(before + len(received), self._reason)
        return received

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            parts = REPLY_LINE.fullmatch(line)
            if parts is None:
                self._abort("a reply is not SMTP")
                return
            self._lines.append(parts[3] or b"")
            if parts[2] != b"-":
                text = b"\n".join(self._lines).decode("utf-8", "replace").strip()
                self._replies.append(SMTPResponse(int(parts[1]), text))
                self._lines = []
        if len(self._rest) + sum(map(len, self._lines)) > LONGEST_REPLY:
            self._abort("a reply is too long")
        elif len(self._replies) > self._expected:
            self._abort("an unexpected reply")
        elif len(self._replies) == self._expected:
            self._complete_exchange()

    def connection_lost(self, error: Exception | None) -> None:
        self._reason = self._reason or (describe(error) if error else "the server closed it")
        self._complete_exchange()

    def _abort(self, reason: str) -> None:
        """Closes the connection: later replies could no longer be matched to their commands."""
        self._reason = self._reason or reason
        del self._replies[self._expected :]
        self._transport.close()
        self._complete_exchange()

    def _complete_exchange(self) -> None:
        if self._complete is not None and not self._complete.done():
            self._complete.set_result(None)


def _until_negative(replies: Sequence[SMTPResponse]) -> Iterator[SMTPResponse]:
    for reply in replies:
        yield reply
        if reply.code >= NEGATIVE:
            break
