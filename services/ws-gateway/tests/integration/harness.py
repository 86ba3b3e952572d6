"""A gateway to test, in this process or in its own, and WebSocket clients that connect to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from aio_pika import Message
from pydantic import SecretStr
from websockets.asyncio.client import ClientConnection, connect

from tablebell.frames import AddressedFrame, encode_frames
from tablebell.lifecycle import Stop
from tablebell.rabbit import Broker
from tablebell.testing import free_port
from tablebell.testing.processes import is_ready, service_process, wait_until_ready
from tablebell.testing.tokens import AUDIENCE, PUBLIC_KEY_FILE, token
from tablebell.topology import LIVE_EXCHANGE, declare_live
from ws_gateway.__main__ import serve_until
from ws_gateway.settings import Settings


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

    async def publish(self, *frames: AddressedFrame) -> None:
        await publish(self.broker, frames)

    async def open(self, url: str | None = None, **options: Any) -> ClientConnection:
        client = await connect(url or self.ws_url, compression=None, ping_interval=None, **options)
        self.clients.append(client)
        return client

    async def sign_in(self, person: str = "RESTAURANT_USER:50", **claims: Any) -> ClientConnection:
        client = await self.open()
        await client.send(json.dumps({"type": "auth", "token": token(person, **claims)}))
        ready = await receive(client)
        assert ready["type"] == "ready", ready
        return client

    async def is_ready(self) -> bool:
        return await is_ready(self.settings.port)

    async def metrics(self) -> str:
        async with httpx.AsyncClient() as http:
            return (await http.get(f"{self.http_url}/metrics")).text


StartGateway = Callable[..., Awaitable[RunningGateway]]


@asynccontextmanager
async def running_gateway(amqp_url: SecretStr, broker: Broker, **changes: Any) -> AsyncIterator[RunningGateway]:
    """A gateway in this event loop. `changes` replace the test's settings."""
    defaults = {
        "host": "127.0.0.1",
        "port": free_port(),
        "amqp_url": amqp_url,
        "jwt_public_key_file": PUBLIC_KEY_FILE,
        "jwt_audience": AUDIENCE,
        "drain_seconds": 1.0,
    }
    settings = Settings(**{**defaults, **changes})
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


def gateway_process(
    amqp_url: SecretStr, port: int, log: Path, **changes: str
) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """A gateway as a separate process, for tests that send it signals."""
    settings = {
        "AMQP_URL": amqp_url.get_secret_value(),
        "JWT_PUBLIC_KEY_FILE": str(PUBLIC_KEY_FILE),
        "JWT_AUDIENCE": AUDIENCE,
        "DRAIN_SECONDS": "2",
    }
    return service_process("ws_gateway", port, {**settings, **changes}, log)


async def publish(broker: Broker, frames: Sequence[AddressedFrame]) -> None:
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
