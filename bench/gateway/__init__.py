"""ws-gateway: memory per idle connection, latency of a frame, and frames per second.

The ceilings: a bare `websockets` server (memory), a bare consumer of the same messages (latency), a loop that writes
the same frames to the same sockets (frames per second), and RabbitMQ's web_stomp plugin.
"""

from bench.gateway.clients import ClientGroup
from bench.gateway.latency import measure_latency
from bench.gateway.memory import measure_memory
from bench.gateway.processes import READY, auth_messages, gateway_process, open_live_channel
from bench.gateway.throughput import measure_throughput
from bench.gateway.web_stomp import compare_with_web_stomp
from bench.harness import Figure, Harness
from tablebell.rabbit import open_broker

USERS = 1_000


async def measure(harness: Harness) -> list[Figure]:
    figures = await measure_memory(harness)
    async with (
        harness.vhost() as amqp_url,
        open_broker(amqp_url, "bench") as broker,
        gateway_process(amqp_url) as (port, gateway),
    ):
        clients = ClientGroup()
        await clients.connect(port, "/ws", auth_messages(USERS), READY)
        channel = await open_live_channel(broker)
        figures += await measure_latency(harness, broker, channel, clients)
        figures += await measure_throughput(harness, channel, clients, gateway)
        clients.abort()
    figures += await compare_with_web_stomp(harness)
    return figures
