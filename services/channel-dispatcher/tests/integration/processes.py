"""The dispatcher as a process, with settings from its environment."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import httpx

from tablebell.testing import Database, eventually, free_port
from tablebell_sandbox.testing import RunningSandbox


def settings_for(database: Database, sandbox: RunningSandbox, credentials: Path) -> dict[str, str]:
    return {
        "DATABASE_URL": database.url_of("channel_dispatcher").get_secret_value(),
        "SMTP_URL": f"smtp://127.0.0.1:{sandbox.smtp_port}",
        "MAIL_FROM": "Tablebell <no-reply@tablebell.example>",
        "SMS_API_URL": sandbox.sms_url,
        "SMS_ACCOUNT": "AC1",
        "SMS_TOKEN": "secret",
        "SMS_FROM": "+390200000000",
        "FCM_API_URL": sandbox.fcm_url,
        "FCM_PROJECT": "tablebell-demo",
        "FCM_CREDENTIALS_FILE": str(credentials),
        "SLACK_WEBHOOK_URL": sandbox.slack_url,
    }


class DispatcherProcess:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    async def ready(self) -> None:
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as http:

            async def answers() -> bool:
                try:
                    return (await http.get("/health/ready")).is_success
                except httpx.TransportError:
                    return False

            await eventually(answers, within=20, every=0.05)

    async def metrics(self) -> str:
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as http:
            return (await http.get("/metrics")).text

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def terminate(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    @property
    def running(self) -> bool:
        return self._process.returncode is None


async def start(environment: Mapping[str, str], log: IO[bytes] | None = None) -> DispatcherProcess:
    port = free_port()
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "channel_dispatcher",
        env={**inherited, "HOST": "127.0.0.1", "PORT": str(port), "LOG_LEVEL": "WARNING", **environment},
        stdout=log or asyncio.subprocess.DEVNULL,
    )
    return DispatcherProcess(process, port)


@asynccontextmanager
async def running(environment: Mapping[str, str], log: IO[bytes] | None = None) -> AsyncIterator[DispatcherProcess]:
    dispatcher = await start(environment, log)
    try:
        await dispatcher.ready()
        yield dispatcher
    finally:
        if dispatcher.running:
            await dispatcher.kill()
