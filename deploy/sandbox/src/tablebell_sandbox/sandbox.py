"""The whole sandbox: the channels' servers and the web port, with one store and one set of active faults."""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Fault
from tablebell_sandbox.fcm import FcmProvider
from tablebell_sandbox.http_server import http_listener
from tablebell_sandbox.mail_connection import MailConnection
from tablebell_sandbox.mail_handler import MailHandler
from tablebell_sandbox.oauth import TokenIssuer
from tablebell_sandbox.service_account import ServiceAccount
from tablebell_sandbox.settings import InvalidSettings, Settings
from tablebell_sandbox.slack import SlackProvider
from tablebell_sandbox.sms import SmsProvider
from tablebell_sandbox.store import Store
from tablebell_sandbox.tcp_server import TcpServer
from tablebell_sandbox.web_app import web_app

logger = logging.getLogger(__name__)


class Sandbox:
    """An async context manager: all ports are open inside it and closed afterwards."""

    def __init__(self, settings: Settings) -> None:
        self.store = Store(settings.max_messages)
        self.active_faults = ActiveFaults()
        self._issuer = TokenIssuer(settings.fcm_token_seconds)
        if settings.fcm_credentials_file is not None:
            self.trust(ServiceAccount.read(settings.fcm_credentials_file))
        self._resources = AsyncExitStack()

        host, store, active_faults = settings.host, self.store, self.active_faults
        sms = SmsProvider(store, active_faults, settings.sms_login).app()
        fcm = FcmProvider(store, active_faults, self._issuer).app()
        slack = SlackProvider(store, active_faults).app()
        self._listeners = {
            Channel.EMAIL: _smtp_listener(settings, MailHandler(store, active_faults, settings.smtp_login)),
            Channel.SMS: http_listener("SANDBOX_SMS_PORT", host, settings.sms_port, sms),
            Channel.PUSH: http_listener("SANDBOX_FCM_PORT", host, settings.fcm_port, fcm),
            Channel.SLACK: http_listener("SANDBOX_SLACK_PORT", host, settings.slack_port, slack),
        }
        self._web = http_listener("SANDBOX_PORT", host, settings.port, web_app(store, active_faults, self.set_faults))

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as started:
            for listener in (*self._listeners.values(), self._web):
                started.push_async_callback(listener.close)
                await listener.start()
            self._resources = started.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._resources.aclose()

    @property
    def web_port(self) -> int:
        return self._web.port

    def port(self, channel: Channel) -> int:
        return self._listeners[channel].port

    def trust(self, account: ServiceAccount) -> None:
        """From now on tokens are issued for assertions of this account only."""
        self._issuer.trust(account)

    async def set_faults(self, channel: Channel, faults: Sequence[Fault]) -> None:
        self.active_faults.set(channel, faults)
        logger.info("faults_set channel=%s faults=%s", channel, self.active_faults.describe(channel))
        outage = self.active_faults.outage(channel)
        if outage is None:
            await self._listeners[channel].accept()
        else:
            await self._listeners[channel].refuse(outage.for_seconds)


def _smtp_listener(settings: Settings, handler: MailHandler) -> TcpServer:
    connections: set[MailConnection] = set()
    tls = _tls_context(settings)
    starttls = tls if settings.smtp_tls == "starttls" else None

    def connect() -> MailConnection:
        return MailConnection(handler, connections, starttls, asyncio.get_running_loop())

    implicit = tls if settings.smtp_tls == "implicit" else None
    return TcpServer(
        "SANDBOX_SMTP_PORT",
        settings.host,
        settings.smtp_port,
        factory=connect,
        connections=connections,
        tls=implicit,
    )


def _tls_context(settings: Settings) -> ssl.SSLContext | None:
    if settings.smtp_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = settings.smtp_certificate
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise InvalidSettings(f"SANDBOX_SMTP_CERT_FILE and SANDBOX_SMTP_KEY_FILE: {error}") from error
    return context
