"""The gateway in a process of its own, and the tokens and channels that its clients use."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiormq.abc import AbstractChannel
from pydantic import SecretStr

from bench.gateway.clients import masked
from bench.process import MeasuredProcess, python_process
from tablebell.rabbit import Broker
from tablebell.testing import free_port
from tablebell.testing.tokens import AUDIENCE, PUBLIC_KEY_FILE, token
from tablebell.topology import declare_live
from tablebell_tools.unlimited import UNLIMITED

BARE_SERVERS = "bench.gateway.bare_servers"
READY = b'"type":"ready"'


@asynccontextmanager
async def gateway_process(amqp_url: SecretStr) -> AsyncIterator[tuple[int, MeasuredProcess]]:
    """Run ws-gateway and yield its port and its process."""
    port = free_port()
    settings = {
        "AMQP_URL": amqp_url.get_secret_value(),
        "JWT_PUBLIC_KEY_FILE": str(PUBLIC_KEY_FILE),
        "JWT_AUDIENCE": AUDIENCE,
        **UNLIMITED,
    }
    async with python_process("ws_gateway", port=port, settings=settings) as server:
        yield port, server


def auth_messages(users: int) -> list[bytes]:
    """The first message of each of CUSTOMER:1, CUSTOMER:2 and so on."""
    return [
        masked(json.dumps({"type": "auth", "token": token(f"CUSTOMER:{number + 1}")}).encode())
        for number in range(users)
    ]


async def open_live_channel(broker: Broker) -> AbstractChannel:
    channel = await broker.open_channel(confirms=False, wait=10)
    await declare_live(channel)
    return await channel.get_underlay_channel()
