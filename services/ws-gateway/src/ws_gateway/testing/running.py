"""For tests and measurements: a gateway in this process, on a port of its own, and people who connect to it."""

import asyncio
import contextlib
import json
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import jwt
from aio_pika import Message
from pydantic import SecretStr
from websockets.asyncio.client import ClientConnection, connect

from tablebell.frames import Addressed, NotificationFrame, addressed, encode_frames
from tablebell.lifecycle import Stop
from tablebell.rabbit import Broker
from tablebell.topology import LIVE_EXCHANGE, declare_live
from ws_gateway.__main__ import serve_until
from ws_gateway.settings import Settings

SECRET = secrets.token_hex(32)
AUDIENCE = "tablebell-tests"


def free_port() -> int:
    """Below the ports that the kernel gives to clients: those may be taken while their server is restarted."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def token(person: str = "RESTAURANT_USER:50", *, seconds: float = 600, secret: str = SECRET, **more: Any) -> str:
    user_type, _, user_id = person.partition(":")
    claims = {"sub": user_id, "user_type": user_type, "aud": AUDIENCE, "exp": int(time.time() + seconds)}
    return jwt.encode({**claims, **more}, secret, algorithm="HS256")


def notification(number: int, *to: str, body: str = "Tavolo per 4", **more: Any) -> Addressed:
    view = NotificationFrame(
        id=number,
        event_notification_id=number,
        event_type="RESERVATION_REQUESTED",
        reservation_id=number,
        title="Nuova prenotazione ricevuta",
        body=body,
        properties={},
        shared=True,
        actions=["CONFIRMED", "REJECTED", "POSTPONED"],
        is_read=False,
        created_at=datetime.now(UTC),
        **more,
    )
    return addressed(view, list(to))


@dataclass
class RunningGateway:
    settings: Settings
    stop: Stop
    broker: Broker
    clients: list[ClientConnection] = field(default_factory=list)

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.settings.port}/ws"

    @property
    def stomp_url(self) -> str:
        return f"ws://127.0.0.1:{self.settings.port}/stomp"

    async def publish(self, *frames: Addressed) -> None:
        await publish(self.broker, frames)

    async def open(self, url: str | None = None, **options: Any) -> ClientConnection:
        client = await connect(url or self.ws_url, compression=None, ping_interval=None, **options)
        self.clients.append(client)
        return client

    async def sign_in(self, person: str = "RESTAURANT_USER:50", **claims: Any) -> ClientConnection:
        client = await self.open()
        await client.send(json.dumps({"type": "auth", "token": token(person, **claims)}))
        ready = await receive(client)
        if ready["type"] != "ready":
            raise AssertionError(f"not ready but {ready}")
        return client

    async def is_ready(self) -> bool:
        return await is_ready(self.settings.port)

    async def metrics(self) -> str:
        async with httpx.AsyncClient() as http:
            return (await http.get(f"{self.http_url}/metrics")).text


async def publish(broker: Broker, frames: Sequence[Addressed]) -> None:
    channel = await broker.open_channel(confirms=True)
    await declare_live(channel)
    exchange = await channel.get_exchange(LIVE_EXCHANGE)
    await exchange.publish(Message(encode_frames(frames)), "", mandatory=False)
    await channel.close()


async def receive(client: ClientConnection, within: float = 5.0) -> Any:
    async with asyncio.timeout(within):
        return json.loads(await client.recv())


async def close_code(client: ClientConnection, within: float = 10.0) -> int | None:
    async with asyncio.timeout(within):
        await client.wait_closed()
    return client.close_code


StartGateway = Callable[..., Awaitable[RunningGateway]]


@asynccontextmanager
async def running_gateway(amqp_url: SecretStr, broker: Broker, **more: Any) -> AsyncIterator[RunningGateway]:
    options = {
        "host": "127.0.0.1",
        "port": free_port(),
        "amqp_url": amqp_url,
        "jwt_secret": SECRET,
        "jwt_audience": AUDIENCE,
        "drain_seconds": 1.0,
    }
    settings = Settings(**{**options, **more})
    stop = Stop()
    running = RunningGateway(settings, stop, broker)
    serving = asyncio.create_task(serve_until(settings, stop))
    try:
        await wait_until_ready(settings.port)
        yield running
    finally:
        await asyncio.gather(*(client.close() for client in running.clients), return_exceptions=True)
        stop.request()
        await serving


@asynccontextmanager
async def gateway_process(
    amqp_url: SecretStr, port: int, log: Path, **more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The gateway as a process of its own, to send signals to."""
    environment = {
        **os.environ,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "AMQP_URL": amqp_url.get_secret_value(),
        "JWT_SECRET": SECRET,
        "JWT_AUDIENCE": AUDIENCE,
        "DRAIN_SECONDS": "2",
        **more,
    }
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ws_gateway", env=environment, stdout=output, stderr=output
        )
    try:
        await wait_until_ready(port)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def is_ready(port: int) -> bool:
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200
        except httpx.TransportError:
            return False


async def wait_until_ready(port: int) -> None:
    async with asyncio.timeout(25):
        while not await is_ready(port):  # noqa: ASYNC110 - it is elsewhere that it becomes ready
            await asyncio.sleep(0.05)
