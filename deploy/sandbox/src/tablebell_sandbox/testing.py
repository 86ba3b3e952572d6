"""Runs the sandbox inside a test, on real ports.

async with running_sandbox() as sandbox:
    await send_mail(port=sandbox.smtp_port)
    assert sandbox.messages(Channel.EMAIL)[0].subject == "…"
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import parse_faults
from tablebell_sandbox.message import Message
from tablebell_sandbox.sandbox import Sandbox
from tablebell_sandbox.service_account import ServiceAccount
from tablebell_sandbox.settings import Settings
from tablebell_sandbox.store import Count

HOST = "127.0.0.1"


class RunningSandbox:
    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.smtp_port = sandbox.port(Channel.EMAIL)
        self.sms_url = self.url(Channel.SMS)
        self.fcm_url = self.url(Channel.PUSH)
        self.slack_url = f"{self.url(Channel.SLACK)}/services/T000/B000/XXXX"
        self.web_url = f"http://{HOST}:{sandbox.web_port}"

    def url(self, channel: Channel) -> str:
        return f"http://{HOST}:{self._sandbox.port(channel)}"

    def messages(self, channel: Channel | None = None, to: str = "") -> list[Message]:
        """The stored messages, in order of arrival."""
        return [Message.of(record) for record in self._sandbox.store.find(channel, to)]

    def keys(self, channel: Channel) -> list[str]:
        return list(self._sandbox.store.keys(channel))

    def count(self, channel: Channel) -> Count:
        return self._sandbox.store.counts()[channel]

    async def wait_for(self, channel: Channel, messages: int, timeout: float = 10) -> list[Message]:  # noqa: ASYNC109
        """Waits for this many messages. Raises TimeoutError if they do not arrive in time."""
        async with asyncio.timeout(timeout):
            while self.count(channel).accepted < messages:  # noqa: ASYNC110 - no event in the hot path
                await asyncio.sleep(0.01)
        return self.messages(channel)

    async def set_faults(self, channel: Channel, *faults: dict[str, Any]) -> None:
        """Replaces the channel's faults, as in the API: `{"kind": "http", "status": 503, "count": 2}`."""
        await self._sandbox.set_faults(channel, parse_faults(channel, faults))

    def clear(self) -> None:
        """Deletes messages, keys and counts; faults stay."""
        self._sandbox.store.clear()

    def write_service_account(self, path: Path, project: str = "tablebell-demo") -> None:
        """Writes a credentials file for an FCM client; from now on the sandbox trusts this account only."""
        account = ServiceAccount.generate(project, f"{self.fcm_url}/token")
        account.write(path)
        self._sandbox.trust(account)


@asynccontextmanager
async def running_sandbox(**settings: Any) -> AsyncIterator[RunningSandbox]:
    """Uses free ports of 127.0.0.1 and ignores the environment; `settings` are those of `Settings`."""
    ports = {name: 0 for name in Settings.model_fields if name.endswith("port")}
    async with Sandbox(Settings(host=HOST, **{**ports, **settings})) as sandbox:
        yield RunningSandbox(sandbox)
