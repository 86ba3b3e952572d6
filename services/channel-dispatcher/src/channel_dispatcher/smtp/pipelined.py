"""An open SMTP connection, over which a mail goes in as few waits as the server allows.

aiosmtplib connects, encrypts and logs in; from then on the connection is a line. Said at once (RFC 2920) with the mail
in one piece behind it (RFC 3030), a mail costs one wait for the server instead of four. aiosmtplib cannot offer that:
it drops what it is answered before it asks.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import cast

from aiosmtplib import SMTP, SMTPResponse

from tablebell.outage import describe

LONGEST_ANSWER = 64 * 1024
NEGATIVE = 400
START_OF_MAIL = 354
END_OF_MAIL = b".\r\n"
ANSWER_LINE = re.compile(rb"(\d{3})(?:([- ])(.*?))?\r?")
LEADING_DOT = re.compile(rb"^\.", re.MULTILINE)
CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


class ConnectionLost(Exception):
    """The server went away after so many of the answers that it owed."""

    def __init__(self, answered: int, reason: str) -> None:
        super().__init__(reason)
        self.answered = answered


class PipelinedSmtp(asyncio.Protocol):
    """Serves one conversation at a time. A caller that gives up half-way closes it. Methods raise ConnectionLost."""

    def __init__(self, connection: SMTP) -> None:
        """`connection` has been greeted, and nobody else uses it any more."""
        self.takes_utf8 = connection.supports_extension("smtputf8")
        self._pipelining = connection.supports_extension("pipelining")
        self._chunking = connection.supports_extension("chunking")
        self._connection = connection
        self._transport = cast("asyncio.Transport", connection.transport)
        self._transport.set_protocol(self)
        self._rest = b""
        self._lines: list[bytes] = []
        self._answers: list[SMTPResponse] = []
        self._expected = 0
        self._answered: asyncio.Future[None] | None = None
        self._reason = ""

    @property
    def is_open(self) -> bool:
        return not self._reason and not self._transport.is_closing()

    async def send(self, envelope: Sequence[bytes], mail: bytes) -> list[SMTPResponse]:
        """The answers to each command of the envelope and to the mail, up to the first negative one.

        Each line of the mail ends in CR LF.
        """
        if self._pipelining and self._chunking:
            return await self._ask((*envelope, b"BDAT %d LAST" % len(mail)), mail)
        answers = await self._ask((*envelope, b"DATA"))
        if answers[-1].code == START_OF_MAIL:
            answers[-1:] = await self._exchange(LEADING_DOT.sub(b"..", mail) + END_OF_MAIL, 1, before=len(envelope))
        return answers

    async def reset(self) -> None:
        await self._ask((b"RSET",))

    async def quit(self) -> None:
        await self._ask((b"QUIT",))

    async def _ask(self, commands: Sequence[bytes], attached: bytes = b"") -> list[SMTPResponse]:
        """The answers, up to the first negative one."""
        if any(CONTROL.search(command) for command in commands):
            raise ValueError("a command has control characters")
        if self._pipelining:
            heard = await self._exchange(b"\r\n".join((*commands, attached)), len(commands))
            answers = list(_until_negative(heard))
            if len(answers) < len(heard) and heard[-1].code == START_OF_MAIL:
                # It waits for a mail to nobody: an empty one, whose refusal is no news.
                await self._exchange(END_OF_MAIL, 1)
            return answers
        answers = []
        for command in commands:
            answers += await self._exchange(command + b"\r\n", 1, before=len(answers))
            if answers[-1].code >= NEGATIVE:
                break
        return answers

    def close(self) -> None:
        self._connection.close()

    async def _exchange(self, data: bytes, answers: int, before: int = 0) -> list[SMTPResponse]:
        """As many answers, or fewer if one of them is negative and the server hung up after it."""
        if not self.is_open:
            raise ConnectionLost(before, self._reason or "it is closed")
        self._answers, self._expected = [], answers
        self._answered = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(data)
            await self._answered
        finally:
            self._expected, self._answered = 0, None
        heard, self._answers = self._answers, []
        if len(heard) < answers and all(answer.code < NEGATIVE for answer in heard):
            raise ConnectionLost(before + len(heard), self._reason)
        return heard

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            parts = ANSWER_LINE.fullmatch(line)
            if parts is None:
                self._lose("what it said is not SMTP")
                return
            self._lines.append(parts[3] or b"")
            if parts[2] != b"-":
                text = b"\n".join(self._lines).decode("utf-8", "replace").strip()
                self._answers.append(SMTPResponse(int(parts[1]), text))
                self._lines = []
        if len(self._rest) + sum(map(len, self._lines)) > LONGEST_ANSWER:
            self._lose("its answer has no end")
        elif len(self._answers) > self._expected:
            self._lose("it spoke out of turn")
        elif len(self._answers) == self._expected:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        self._reason = self._reason or (describe(error) if error else "the server closed it")
        self._finish()

    def _lose(self, reason: str) -> None:
        """An answer that cannot be told from another's makes everything after it doubtful."""
        self._reason = self._reason or reason
        del self._answers[self._expected :]
        self._transport.close()
        self._finish()

    def _finish(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)


def _until_negative(answers: Sequence[SMTPResponse]) -> Iterator[SMTPResponse]:
    for answer in answers:
        yield answer
        if answer.code >= NEGATIVE:
            break
