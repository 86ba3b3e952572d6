"""The hooks that aiosmtpd calls for a login, a recipient and a mail."""

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING, Any

from aiosmtpd.smtp import MISSING, SMTP, AuthResult, Envelope, LoginPassword, Session, TLSSetupException

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Drop, SmtpHang, SmtpReply, SmtpStage
from tablebell_sandbox.mail import Mail
from tablebell_sandbox.store import Store

if TYPE_CHECKING:
    from tablebell_sandbox.mail_connection import MailConnection

logger = logging.getLogger(__name__)

REPLIES = {
    421: "421 4.3.2 Service not available, closing transmission channel",
    450: "450 4.2.1 Mailbox temporarily unavailable",
    535: "535 5.7.8 Authentication credentials invalid",
    550: "550 5.1.1 No such user here",
}


def reply_of(fault: SmtpReply) -> str:
    if fault.text is not None:
        return f"{fault.code} {fault.text}"
    return REPLIES.get(fault.code) or f"{fault.code} {fault.code // 100}.0.0 Fault switched on in the sandbox"


class MailHandler:
    def __init__(self, store: Store, active_faults: ActiveFaults, login: tuple[str, str] | None = None) -> None:
        self._store = store
        self._active_faults = active_faults
        self._login = login

    @property
    def login_required(self) -> bool:
        return self._login is not None

    async def handle_EHLO(  # noqa: N802 - aiosmtpd finds its hooks by these names
        self, _server: SMTP, session: Session, _envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        greeting, *extensions = responses
        return [greeting, "250-PIPELINING", "250-CHUNKING", *extensions]

    async def greet(self, server: "MailConnection") -> str | None:
        """The reply instead of the greeting, if a fault applies."""
        return await self._fault_reply(server, "connect")

    async def handle_AUTH(  # noqa: N802
        self, server: "MailConnection", _session: Session, _envelope: Envelope, _arguments: list[str]
    ) -> Any:
        return await self._fault_reply(server, "auth") or MISSING

    async def handle_MAIL(  # noqa: N802
        self, server: "MailConnection", _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if (problem := await self._fault_reply(server, "mail")) is not None:
            return problem
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: "MailConnection", _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if (problem := await self._fault_reply(server, "rcpt", address)) is not None:
            return problem
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802
        self, server: "MailConnection", session: Session, envelope: Envelope
    ) -> str:
        effect = self._active_faults.take(Channel.EMAIL, envelope.rcpt_tos)
        match effect.fault:
            case SmtpReply():
                reply = self._refuse(effect.fault)
            case Drop(accept=False) | SmtpHang():
                self._store.refuse(Channel.EMAIL)
                reply = ""
            case _:
                reply = self._accept(server, session, envelope)
        if effect.delay:
            await asyncio.sleep(effect.delay)
        if isinstance(effect.fault, Drop):
            await server.disconnect()
        if isinstance(effect.fault, SmtpHang):
            await server.wait_forever()
        return reply

    async def handle_exception(self, error: Exception) -> str:
        """A client may break off a TLS handshake; anything else is a bug and logged with its traceback."""
        if isinstance(error, TLSSetupException):
            logger.info("tls_handshake_failed reason=%r", error.__cause__)
        else:
            logger.error("mail_failed", exc_info=error)
        return f"451 4.3.0 {type(error).__name__}"

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, credentials: LoginPassword
    ) -> AuthResult:
        """Without a login in the settings any credentials are accepted."""
        if self._login is not None:
            username, password = (part.encode() for part in self._login)
            right = hmac.compare_digest(credentials.login, username)
            if not (hmac.compare_digest(credentials.password, password) and right):
                self._store.refuse(Channel.EMAIL)
                return AuthResult(success=False, handled=False, message=REPLIES[535])
        return AuthResult(success=True, auth_data=credentials)

    def _accept(self, server: "MailConnection", session: Session, envelope: Envelope) -> str:
        login: Any = session.auth_data
        mail = Mail(
            raw=envelope.original_content or b"",
            sender=envelope.mail_from or "",
            tls=server.tls_version,
            login=login.login.decode(errors="replace") if isinstance(login, LoginPassword) else None,
        )
        record = self._store.accept(Channel.EMAIL, envelope.rcpt_tos, mail.key, mail)
        logger.debug("mail_accepted sequence=%d to=%s", record.sequence, record.to)
        return f"250 2.0.0 OK: queued as {record.sequence}"

    async def _fault_reply(self, server: "MailConnection", stage: SmtpStage, *to: str) -> str | None:
        """The reply of a fault at this stage, if one applies. Never returns if the fault is a hang."""
        fault = self._active_faults.take(Channel.EMAIL, to, stage).fault
        if isinstance(fault, SmtpHang):
            self._store.refuse(Channel.EMAIL)
            await server.wait_forever()
        return self._refuse(fault) if isinstance(fault, SmtpReply) else None

    def _refuse(self, fault: SmtpReply) -> str:
        self._store.refuse(Channel.EMAIL)
        return reply_of(fault)
