"""The gateway compared with RabbitMQ's web_stomp plugin, with the same STOMP clients on the same broker.

With the plugin every user has a queue and a binding. It is enabled on loopback, only for the measurement.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
from aiormq.abc import AbstractChannel
from pydantic import SecretStr

from bench.gateway.clients import ClientGroup, masked
from bench.gateway.processes import gateway_process, open_live_channel
from bench.harness import Figure, Harness
from bench.process import MeasuredProcess
from tablebell.frames import AddressedFrame, encode_frames
from tablebell.rabbit import open_broker
from tablebell.testing import free_port
from tablebell.testing.frames import notification
from tablebell.testing.tokens import token
from tablebell.topology import LIVE_EXCHANGE
from tablebell_local.instance import Instance
from tablebell_local.programs import program as rabbitmq_program
from tablebell_local.stack import Stack
from ws_gateway.encoded_frame import DESTINATION
from ws_gateway.stomp import encode

CLIENTS = 1_000
FRAMES_PER_SECOND = 500
SECONDS = 4
TOPICS = "amq.topic"


@dataclass(frozen=True, slots=True)
class Cost:
    memory_kib: float
    """Per connection, of broker and gateway together."""
    broker_cpu: float
    """The share of one core while frames are published."""


@dataclass(frozen=True, slots=True)
class Target:
    """The endpoint of the clients, and the processes that serve it."""

    amqp_url: SecretStr
    port: int
    path: str
    broker: MeasuredProcess
    gateway: MeasuredProcess | None = None

    @property
    def memory_kib(self) -> int:
        return self.broker.memory_kib + (self.gateway.memory_kib if self.gateway else 0)


async def compare_with_web_stomp(harness: Harness) -> list[Figure]:
    broker = MeasuredProcess(await _broker_pid(harness))
    async with harness.vhost() as amqp_url, gateway_process(amqp_url) as (port, gateway):
        harness.say(f"{CLIENTS} STOMP clients of the gateway")
        target = Target(amqp_url, port, "/stomp", broker, gateway)
        ours = await _measure(target, _gateway_messages(), _publish_frame)
    async with harness.vhost() as amqp_url, _web_stomp(harness) as port:
        harness.say(f"{CLIENTS} STOMP clients of rabbitmq_web_stomp")
        theirs = await _measure(Target(amqp_url, port, "/ws", broker), _plugin_messages(amqp_url), _publish_topic)
    return [
        Figure(
            "memory per STOMP connection, broker and gateway together",
            ours.memory_kib,
            "KiB",
            theirs.memory_kib,
            "< rabbitmq_web_stomp",
            ours.memory_kib < theirs.memory_kib,
        ),
        Figure(
            f"broker CPU at {FRAMES_PER_SECOND} frames a second to {CLIENTS} STOMP clients",
            100 * ours.broker_cpu,
            "% of a core",
            100 * theirs.broker_cpu,
            "< rabbitmq_web_stomp",
            ours.broker_cpu < theirs.broker_cpu,
        ),
    ]


async def _measure(
    target: Target, first_messages: list[bytes], publish: Callable[[AbstractChannel, int, bytes], Awaitable[None]]
) -> Cost:
    clients = ClientGroup()
    before = target.memory_kib
    await clients.connect(target.port, target.path, first_messages, b"RECEIPT")
    await asyncio.sleep(1)
    memory = (target.memory_kib - before) / len(first_messages)
    text = notification(1, "x", body="x" * 200).text
    async with open_broker(target.amqp_url, "bench") as connection:
        channel = await open_live_channel(connection)
        loop = asyncio.get_running_loop()
        cpu, started = target.broker.cpu_seconds, time.perf_counter()
        began = loop.time()
        for number in range(FRAMES_PER_SECOND * SECONDS):
            await asyncio.sleep(max(0.0, began + number / FRAMES_PER_SECOND - loop.time()))
            await publish(channel, number % CLIENTS + 1, text)
        used = (target.broker.cpu_seconds - cpu) / (time.perf_counter() - started)
    clients.abort()
    await asyncio.sleep(1)
    return Cost(memory, used)


async def _publish_frame(channel: AbstractChannel, user: int, text: bytes) -> None:
    await channel.basic_publish(encode_frames([AddressedFrame([f"CUSTOMER:{user}"], text)]), exchange=LIVE_EXCHANGE)


async def _publish_topic(channel: AbstractChannel, user: int, text: bytes) -> None:
    await channel.basic_publish(text, exchange=TOPICS, routing_key=f"user.{user}")


def _gateway_messages() -> list[bytes]:
    return [
        _first_message({"Authorization": f"Bearer {token(f'CUSTOMER:{user + 1}')}"}, DESTINATION)
        for user in range(CLIENTS)
    ]


def _plugin_messages(amqp_url: SecretStr) -> list[bytes]:
    parts = urlsplit(amqp_url.get_secret_value())
    login = {
        "login": unquote(parts.username or ""),
        "passcode": unquote(parts.password or ""),
        "host": unquote(parts.path[1:]),
    }
    return [_first_message(login, f"/topic/user.{user + 1}") for user in range(CLIENTS)]


def _first_message(login: dict[str, str], destination: str) -> bytes:
    connect = encode("CONNECT", {"accept-version": "1.2", "heart-beat": "0,0", **login})
    subscribe = encode("SUBSCRIBE", {"id": "sub-0", "destination": destination, "receipt": "subscribed"})
    return masked(connect) + masked(subscribe)


async def _broker_pid(harness: Harness) -> int:
    async with httpx.AsyncClient(base_url=harness.servers.management_url, timeout=10) as http:
        (node,) = (await http.get("/api/nodes")).json()
    return int(node["os_pid"])


@asynccontextmanager
async def _web_stomp(harness: Harness) -> AsyncIterator[int]:
    """Enable the plugin on a loopback port. Its dependency rabbitmq_stomp gets no TCP port."""
    port = free_port()
    address = f'[{{ip, "127.0.0.1"}}, {{port, {port}}}]'
    persistent = "[{persistent, true}]"
    await _control(
        harness, "rabbitmqctl", "eval", f"application:set_env(rabbitmq_stomp, tcp_listeners, [], {persistent})."
    )
    setting = f"application:set_env(rabbitmq_web_stomp, tcp_config, {address}, {persistent})."
    await _control(harness, "rabbitmqctl", "eval", setting)
    await _control(harness, "rabbitmq-plugins", "enable", "rabbitmq_web_stomp")
    try:
        yield port
    finally:
        await _control(harness, "rabbitmq-plugins", "disable", "rabbitmq_web_stomp", "rabbitmq_stomp")


async def _control(harness: Harness, program: str, *arguments: str) -> None:
    options = dict(zip(harness.servers.control, harness.servers.control[1:], strict=False))
    stack = Stack(Instance.named(options["--instance"], Path(options["--state"])))
    process = await asyncio.create_subprocess_exec(
        str(rabbitmq_program("rabbitmq-server").with_name(program)),
        *arguments,
        env={**os.environ, **stack.rabbitmq.settings()},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{program} {arguments[0]}: {output.decode()}")
