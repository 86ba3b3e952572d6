"""What is done with a login, a recipient and a mail: the hooks that aiosmtpd calls."""

import asyncio
import hmac
import logging
from typing import TYPE_CHECKING, Any

from aiosmtpd.smtp import MISSING, SMTP, AuthResult, Envelope, LoginPassword, Session, TLSSetupException

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.fault_board import FaultBoard
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
    def __init__(self, store: Store, board: FaultBoard, login: tuple[str, str] | None = None) -> None:
        self._store = store
        self._board = board
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
        """What is said instead of the greeting, if anything."""
        return await self._meet(server, "connect")

    async def handle_AUTH(  # noqa: N802
        self, server: "MailConnection", _session: Session, _envelope: Envelope, _arguments: list[str]
    ) -> Any:
        return await self._meet(server, "auth") or MISSING

    async def handle_MAIL(  # noqa: N802
        self, server: "MailConnection", _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if (problem := await self._meet(server, "mail")) is not None:
            return problem
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802
        self, server: "MailConnection", _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if (problem := await self._meet(server, "rcpt", address)) is not None:
            return problem
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802
        self, server: "MailConnection", session: Session, envelope: Envelope
    ) -> str:
        verdict = self._board.take(Channel.EMAIL, envelope.rcpt_tos)
        match verdict.fault:
            case SmtpReply():
                reply = self._refuse(verdict.fault)
            case Drop(accept=False) | SmtpHang():
                self._store.refuse(Channel.EMAIL)
                reply = ""
            case _:
                reply = self._accept(server, session, envelope)
        if verdict.delay:
            await asyncio.sleep(verdict.delay)
        if isinstance(verdict.fault, Drop):
            await server.hang_up()
        if isinstance(verdict.fault, SmtpHang):
            await server.stay_silent()
        return reply

    async def handle_exception(self, error: Exception) -> str:
        """A client that breaks off a handshake is no surprise here; anything else is a bug worth its traceback."""
        if isinstance(error, TLSSetupException):
            logger.info("tls_handshake_failed reason=%r", error.__cause__)
        else:
            logger.error("mail_failed", exc_info=error)
        return f"451 4.3.0 {type(error).__name__}"

    def authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, credentials: LoginPassword
    ) -> AuthResult:
        """Without a login in the settings any will do, as long as the client can log in at all."""
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

    async def _meet(self, server: "MailConnection", stage: SmtpStage, *to: str) -> str | None:
        """The reply that a fault gives at this stage. Never returns when the fault is silence."""
        fault = self._board.take(Channel.EMAIL, to, stage).fault
        if isinstance(fault, SmtpHang):
            self._store.refuse(Channel.EMAIL)
            await server.stay_silent()
        return self._refuse(fault) if isinstance(fault, SmtpReply) else None

    def _refuse(self, fault: SmtpReply) -> str:
        self._store.refuse(Channel.EMAIL)
        return reply_of(fault)
