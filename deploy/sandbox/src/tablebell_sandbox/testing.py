"""The sandbox inside a test: real ports, one statement to start it.

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
        self.sms_url = f"http://{HOST}:{sandbox.port(Channel.SMS)}"
        self.fcm_url = f"http://{HOST}:{sandbox.port(Channel.PUSH)}"
        self.slack_url = f"http://{HOST}:{sandbox.port(Channel.SLACK)}/services/T000/B000/XXXX"
        self.web_url = f"http://{HOST}:{sandbox.web_port}"

    def messages(self, channel: Channel | None = None, to: str = "") -> list[Message]:
        """Everything still held, in order of arrival."""
        return [Message.of(record) for record in self._sandbox.store.find(channel, to)]

    def keys(self, channel: Channel) -> list[str]:
        return list(self._sandbox.store.keys(channel))

    def count(self, channel: Channel) -> Count:
        return self._sandbox.store.counts()[channel]

    async def wait_for(self, channel: Channel, messages: int, timeout: float = 10) -> list[Message]:  # noqa: ASYNC109
        """Raises TimeoutError if so many have not arrived in time."""
        async with asyncio.timeout(timeout):
            while self.count(channel).accepted < messages:  # noqa: ASYNC110 - the hot path carries no event for it
                await asyncio.sleep(0.01)
        return self.messages(channel)

    async def set_faults(self, channel: Channel, *faults: dict[str, Any]) -> None:
        """Replaces the channel's faults, in the API's own words: `{"kind": "http", "status": 503, "count": 2}`."""
        await self._sandbox.set_faults(channel, parse_faults(channel, faults))

    def clear(self) -> None:
        """Forgets messages, keys and counts; faults stay."""
        self._sandbox.store.clear()

    def write_service_account(self, path: Path, project: str = "tablebell-demo") -> None:
        """A credentials file for an FCM client; from now on the sandbox trusts this account only."""
        account = ServiceAccount.generate(project, f"{self.fcm_url}/token")
        account.write(path)
        self._sandbox.trust(account)


@asynccontextmanager
async def running_sandbox(**settings: Any) -> AsyncIterator[RunningSandbox]:
    """On free ports of 127.0.0.1, whatever the environment says; `settings` are those of `Settings`."""
    ports = dict.fromkeys(("port", "smtp_port", "sms_port", "fcm_port", "slack_port"), 0)
    async with Sandbox(Settings(host=HOST, **{**ports, **settings})) as sandbox:
        yield RunningSandbox(sandbox)
