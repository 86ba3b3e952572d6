"""Memory per idle connection, of a bare `websockets` server and of the gateway."""

import asyncio

from bench.gateway.clients import ClientGroup
from bench.gateway.processes import BARE_SERVERS, READY, auth_messages, gateway_process
from bench.harness import Figure, Harness
from bench.process import MeasuredProcess, python_process
from tablebell.testing import free_port

IDLE = 5_000
WARM_UP = 200


async def measure_memory(harness: Harness) -> list[Figure]:
    harness.say(f"{IDLE} idle connections to a bare server and to the gateway")
    port = free_port()
    async with python_process(BARE_SERVERS, "websockets", str(port), port=port, has_health=False) as bare:
        ceiling, _ = await _memory_per_connection(bare, port, "/", [b""] * IDLE, b"ready")
    async with harness.vhost() as amqp_url, gateway_process(amqp_url) as (port, gateway):
        memory, held = await _memory_per_connection(gateway, port, "/ws", auth_messages(IDLE), READY)
    bar = "≤ 1.3 of bare websockets"
    return [
        Figure("memory per idle connection", memory, "KiB", ceiling, bar, memory <= 1.3 * ceiling),
        Figure("connections held by one process", held, "connections", bar="≥ 5,000", ok=held >= IDLE),
    ]


async def _memory_per_connection(
    server: MeasuredProcess, port: int, path: str, first_messages: list[bytes], reply: bytes
) -> tuple[float, int]:
    """KiB per connection, and the number of connections still open."""
    clients = ClientGroup()
    # The first connections load code: they are not counted.
    await clients.connect(port, path, first_messages[:WARM_UP], reply)
    before = server.memory_kib
    await clients.connect(port, path, first_messages[WARM_UP:], reply)
    await asyncio.sleep(1)
    held = sum(not client.transport.is_closing() for client in clients.clients)
    per_connection = (server.memory_kib - before) / (len(first_messages) - WARM_UP)
    clients.abort()
    await asyncio.sleep(0.5)
    return per_connection, held
