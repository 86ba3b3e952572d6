"""E-mail by SMTP."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated

from aiosmtplib import (
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPException,
    SMTPHeloError,
    SMTPResponse,
    SMTPResponseException,
    SMTPServerDisconnected,
    SMTPTimeoutError,
)
from pydantic import AfterValidator, FilePath, SecretStr

from channel_dispatcher.channels.smtp.calendar import ics
from channel_dispatcher.channels.smtp.layout import html, plain_text
from channel_dispatcher.channels.smtp.message import (
    InvalidAddress,
    Invitation,
    Mailbox,
    ascii_domain,
    build_mail,
    parse_mailbox,
)
from channel_dispatcher.channels.smtp.pipelined import ConnectionLost, PipelinedSmtp
from channel_dispatcher.channels.smtp.pool import SCHEMES, SmtpPool, SmtpServer
from channel_dispatcher.channels.smtp.reply_rules import SERVICE_CLOSING, classify_reply
from channel_dispatcher.channels.spec import ChannelSettings, ChannelSpec, Concurrency, PerSecond
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import ProviderDown, SendOutcome, Sent, Undeliverable
from tablebell.messages import EmailMessage
from tablebell.outage import describe
from tablebell.people import Channel
from tablebell.settings import url_with

STAGES = ("MAIL", "RCPT", "DATA")
ACCEPTED = 250


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

    async def send(self, delivery: Delivery) -> SendOutcome:
        try:
            recipient = ascii_domain(delivery.recipient)
        except InvalidAddress as error:
            return Undeliverable(str(error), address_is_dead=True, answered=False)
        message = EmailMessage.model_validate(delivery.message)
        message_id = f"{delivery.key}@{self._sender.domain}"
        mail = build_mail(
            sender=self._sender.named(message.sender_name),
            recipient=recipient,
            subject=message.subject,
            text=plain_text(message),
            html=html(message),
            message_id=message_id,
            date=datetime.now(UTC),
            unsubscribe=self._unsubscribe,
            reply_to=_reply_to(message),
            invitation=invitation(message, organizer=self._sender, attendee=recipient),
        )
        conversation = _Conversation(self._sender.address, recipient, mail, self._pool.timeout)
        return await self._deliver(conversation) or Sent(message_id)

    async def _deliver(self, conversation: "_Conversation") -> SendOutcome | None:
        """Returns the problem or None. Tries once more on a new connection if the server had closed an idle one."""
        try:
            connection, used = await self._pool.acquire()
        except SMTPException as error:
            return _not_connected(error)
        problem = await conversation.run(connection)
        if used and problem is not None and conversation.lost_before_mail:
            try:
                connection = await self._pool.connect()
            except SMTPException as error:
                return _not_connected(error)
            problem = await conversation.run(connection)
        self._pool.release(connection)
        return problem


class _Conversation:
    """The conversation for one mail, with the stage that it reached."""

    def __init__(self, sender: str, recipient: str, mail: bytes, seconds: float) -> None:
        self._sender = sender
        self._recipient = recipient
        self._mail = mail
        self._seconds = seconds
        self._stage = "MAIL"
        self.lost = False

    @property
    def lost_before_mail(self) -> bool:
        return self.lost and self._stage == "MAIL"

    async def run(self, connection: PipelinedSmtp) -> SendOutcome | None:
        self._stage, self.lost = "MAIL", False
        options = ""
        if not self._recipient.isascii():
            if not connection.takes_utf8:
                return Undeliverable("the server does not support non-ASCII addresses")
            options = " SMTPUTF8 BODY=8BITMIME"
        envelope = (f"MAIL FROM:<{self._sender}>{options}".encode(), f"RCPT TO:<{self._recipient}>".encode())
        try:
            async with asyncio.timeout(self._seconds):
                replies = await connection.send(envelope, self._mail)
                self._stage = STAGES[len(replies) - 1]
                return None if replies[-1].code == ACCEPTED else await self._on_rejection(connection, replies[-1])
        except TimeoutError:
            connection.close()
            return ProviderDown(f"no answer within {self._seconds} s")
        except ConnectionLost as error:
            connection.close()
            self._stage, self.lost = STAGES[error.received], True
            return ProviderDown(f"{self._stage}: the connection was lost before the reply: {error}")

    async def _on_rejection(self, connection: PipelinedSmtp, reply: SMTPResponse) -> SendOutcome:
        self.lost = reply.code == SERVICE_CLOSING and self._stage == "MAIL"  # the server closed an idle connection
        if reply.code == SERVICE_CLOSING:
            connection.close()
        else:
            await self._reset(connection)
        return classify_reply(self._stage, reply.code, reply.message)

    async def _reset(self, connection: PipelinedSmtp) -> None:
        try:
            await connection.reset()
        except ConnectionLost:
            connection.close()


def invitation(message: EmailMessage, *, organizer: Mailbox, attendee: str) -> Invitation | None:
    """The calendar entry of a mail, if it has one."""
    entry, letterhead = message.calendar, message.letterhead
    if entry is None:
        return None
    calendar = ics(
        entry,
        organizer=organizer.address,
        organizer_name=letterhead.name,
        attendee=attendee,
        location=", ".join(part for part in (letterhead.name, letterhead.address) if part),
    )
    return Invitation(entry.method, calendar)


def _reply_to(message: EmailMessage) -> str | None:
    """Without a valid address, replies go to MAIL_FROM: no reason not to send the mail."""
    try:
        address = ascii_domain(message.reply_to) if message.reply_to else None
    except InvalidAddress:
        return None
    return address if address and address.isascii() else None


def _not_connected(error: SMTPException) -> SendOutcome:
    """The server has received nothing of any mail yet."""
    if isinstance(error, SMTPResponseException):
        stage = "AUTH" if isinstance(error, SMTPAuthenticationError) else "CONNECT"
        return classify_reply(stage, error.code, error.message)
    expected = isinstance(error, (SMTPConnectError, SMTPTimeoutError, SMTPServerDisconnected, SMTPHeloError))
    return ProviderDown(describe(error), needs_operator=not expected, certain=True)


@asynccontextmanager
async def open_email(settings: EmailSettings, timeout: float) -> AsyncIterator[EmailSender]:  # noqa: ASYNC109
    sender = parse_mailbox(settings.mail_from)
    ca_file = str(settings.smtp_ca_file) if settings.smtp_ca_file else None
    server = SmtpServer.from_url(
        settings.smtp_url.get_secret_value(),
        ca_file=ca_file,
        timeout=timeout,
        allow_cleartext_login=settings.allow_cleartext_credentials,
    )
    pool = SmtpPool(server, hostname=sender.domain)
    try:
        yield EmailSender(pool, sender, settings.mail_unsubscribe_url or f"mailto:{sender.address}?subject=unsubscribe")
    finally:
        await pool.close()


EMAIL = ChannelSpec(Channel.EMAIL, EmailSettings, open_email)
