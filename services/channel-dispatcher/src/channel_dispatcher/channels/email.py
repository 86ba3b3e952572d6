"""E-mail by SMTP."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated

from aiosmtplib import (
    SMTP,
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPException,
    SMTPHeloError,
    SMTPResponseException,
    SMTPServerDisconnected,
    SMTPTimeoutError,
)
from pydantic import AfterValidator, FilePath, SecretStr

from channel_dispatcher.channels.kind import ChannelSettings, Concurrency, Kind, PerSecond
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.limits import Limits
from channel_dispatcher.mail import InvalidAddress, Mailbox, ascii_domain, build_mail, parse_mailbox
from channel_dispatcher.outcome import Outcome, ProviderDown, RetryLater, Sent, Undeliverable
from channel_dispatcher.rules import Rules, Verdict, code_class
from channel_dispatcher.smtp_pool import SCHEMES, SmtpPool, SmtpServer
from tablebell.messages import EmailMessage
from tablebell.outage import describe
from tablebell.people import Channel
from tablebell.settings import url_with

RULES = Rules(
    {
        "CONNECT 4xx": Verdict.DOWN,
        "CONNECT 5xx": Verdict.DOWN,
        "AUTH 4xx": Verdict.DOWN,
        "AUTH 5xx": Verdict.MISCONFIGURED,
        "MAIL 552": Verdict.REFUSED,  # larger than they take
        "MAIL 5xx": Verdict.MISCONFIGURED,  # they do not want our sender, whoever it is for
        "530": Verdict.MISCONFIGURED,
        "535": Verdict.MISCONFIGURED,
        "550 5.7": Verdict.REFUSED,  # their policy, not the mailbox
        "554 5.1": Verdict.DEAD_ADDRESS,
        "550": Verdict.DEAD_ADDRESS,
        "551": Verdict.DEAD_ADDRESS,
        "553": Verdict.DEAD_ADDRESS,
        "4xx": Verdict.RETRY,
        "5xx": Verdict.REFUSED,
    }
)
ENHANCED = re.compile(r"([245]\.\d{1,3})\.\d{1,3}\b")


def _check_mailbox(text: str) -> str:
    parse_mailbox(text)
    return text


def _check_url(text: str) -> str:
    if not re.fullmatch(r"(https?://|mailto:)[\x21-\x3b\x3d\x3f-\x7e]+", text):
        raise ValueError("should be an https:// or mailto: URL")
    return text


class EmailSettings(ChannelSettings):
    smtp_url: Annotated[SecretStr, url_with(*SCHEMES)]
    smtp_ca_file: FilePath | None = None
    mail_from: Annotated[str, AfterValidator(_check_mailbox)]
    mail_unsubscribe_url: Annotated[str, AfterValidator(_check_url)] | None = None
    email_concurrency: Concurrency = 16
    email_per_second: PerSecond | None = None

    @property
    def limits(self) -> Limits:
        return Limits(self.email_concurrency, self.email_per_second)


class EmailSender:
    def __init__(self, pool: SmtpPool, sender: Mailbox, unsubscribe: str) -> None:
        self._pool = pool
        self._sender = sender
        self._unsubscribe = unsubscribe

    async def send(self, delivery: Delivery) -> Outcome:
        try:
            recipient = ascii_domain(delivery.recipient)
        except InvalidAddress as error:
            return Undeliverable(str(error), address_is_dead=True)
        message = EmailMessage.model_validate(delivery.message)
        message_id = f"{delivery.key}@{self._sender.domain}"
        mail = build_mail(
            sender=self._sender,
            recipient=recipient,
            subject=message.subject,
            text=message.text,
            html=message.html,
            message_id=message_id,
            date=datetime.now(UTC),
            unsubscribe=self._unsubscribe,
        )
        conversation = _Conversation(self._sender.address, recipient, mail)
        return await self._hold(conversation) or Sent(message_id)

    async def _hold(self, conversation: "_Conversation") -> Outcome | None:
        """What went wrong, or None. A kept connection that was closed meanwhile is worth a second try, on a new one."""
        try:
            connection, used = await self._pool.take()
        except SMTPException as error:
            return _not_connected(error)
        problem = await conversation.hold(connection)
        if used and problem is not None and conversation.lost_before_mail:
            try:
                connection = await self._pool.connect()
            except SMTPException as error:
                return _not_connected(error)
            problem = await conversation.hold(connection)
        if conversation.lost:
            problem = await self._after_loss(problem)
        else:
            self._pool.give_back(connection)
        return problem

    async def _after_loss(self, problem: Outcome | None) -> Outcome | None:
        """A lost connection is an outage if nobody answers the door now; else it has to do with this mail."""
        try:
            self._pool.give_back(await self._pool.connect())
        except SMTPException as error:
            return _not_connected(error)
        return problem


class _Conversation:
    """One mail's way through a connection, and how far it came."""

    def __init__(self, sender: str, recipient: str, mail: bytes) -> None:
        self._sender = sender
        self._recipient = recipient
        self._mail = mail
        self._stage = "MAIL"
        self.lost = False

    @property
    def lost_before_mail(self) -> bool:
        return self.lost and self._stage == "MAIL"

    async def hold(self, connection: SMTP) -> Outcome | None:
        self._stage, self.lost = "MAIL", False
        encoding, options = "ascii", ""
        if not self._recipient.isascii():
            if not connection.supports_extension("smtputf8"):
                return Undeliverable("the server takes no address with letters beyond ASCII")
            encoding, options = "utf-8", " SMTPUTF8 BODY=8BITMIME"
        try:
            # One timer for the whole conversation: one for every answer would cost more than the answers.
            async with asyncio.timeout(connection.timeout):
                await self._command(connection, f"MAIL FROM:<{self._sender}>{options}", encoding)
                self._stage = "RCPT"
                await self._command(connection, f"RCPT TO:<{self._recipient}>", encoding)
                self._stage = "DATA"
                await connection.data(self._mail, timeout=None)
        except SMTPResponseException as error:
            return await self._answer(connection, error)
        except TimeoutError:
            connection.close()
            return RetryLater(f"{self._stage}: no answer within {connection.timeout} s")
        except (SMTPServerDisconnected, OSError) as error:
            connection.close()
            self.lost = True
            return RetryLater(f"{self._stage}: the connection was lost before the answer: {describe(error)}")
        return None

    async def _command(self, connection: SMTP, command: str, encoding: str) -> None:
        """As aiosmtplib's own mail and rcpt, which parse anew an address that is known to be well formed."""
        answer = await connection.execute_command(command.encode(encoding), timeout=None)
        if answer.code not in (250, 251):
            raise SMTPResponseException(answer.code, answer.message)

    async def _answer(self, connection: SMTP, error: SMTPResponseException) -> Outcome:
        self.lost = error.code == 421 and self._stage == "MAIL"  # goodbye to an idle connection
        if error.code == 421:
            connection.close()
        else:
            await self._start_over(connection)
        enhanced = ENHANCED.match(error.message)
        return RULES.judge(
            f"{self._stage} {error.code}",
            f"{self._stage} {code_class(error.code)}",
            f"{error.code} {enhanced[1]}" if enhanced else "",
            str(error.code),
            code_class(error.code),
            reason=f"{self._stage}: {error.code} {error.message}",
        )

    async def _start_over(self, connection: SMTP) -> None:
        try:
            await connection.rset()
        except (SMTPException, OSError):
            connection.close()


def _not_connected(error: SMTPException) -> Outcome:
    """Nothing of any mail has been said yet."""
    if isinstance(error, SMTPResponseException):
        stage = "AUTH" if isinstance(error, SMTPAuthenticationError) else "CONNECT"
        reason = f"{stage}: {error.code} {error.message}"
        return RULES.judge(f"{stage} {error.code}", f"{stage} {code_class(error.code)}", reason=reason)
    expected = isinstance(error, (SMTPConnectError, SMTPTimeoutError, SMTPServerDisconnected, SMTPHeloError))
    return ProviderDown(describe(error), needs_operator=not expected)


@asynccontextmanager
async def open_email(settings: EmailSettings, timeout: float) -> AsyncIterator[EmailSender]:  # noqa: ASYNC109
    sender = parse_mailbox(settings.mail_from)
    ca_file = str(settings.smtp_ca_file) if settings.smtp_ca_file else None
    server = SmtpServer.from_url(settings.smtp_url.get_secret_value(), ca_file=ca_file, timeout=timeout)
    pool = SmtpPool(server, hostname=sender.domain)
    try:
        yield EmailSender(pool, sender, settings.mail_unsubscribe_url or f"mailto:{sender.address}?subject=unsubscribe")
    finally:
        await pool.close()


EMAIL = Kind(Channel.EMAIL, EmailSettings, open_email)
