"""ws-gateway: what an idle connection costs, how long a frame takes, how many there may be.

Beside it: a bare `websockets` server (memory), the same messages read by a bare consumer (latency), a loop that writes
the same frames to the same sockets (frames a second), and RabbitMQ's own web_stomp plugin.
"""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiormq.abc import AbstractChannel, DeliveredMessage
from pydantic import SecretStr

from bench.gateway.peers import SENT_AT, Crowd, masked
from bench.gateway.processes import Measured, python_process
from bench.gateway.web_stomp import compare_with_web_stomp
from bench.harness import Figure, Rig
from tablebell.frames import Addressed, encode_frames
from tablebell.rabbit import Broker, open_broker
from tablebell.testing import free_port
from tablebell.testing.frames import notification
from tablebell.testing.tokens import AUDIENCE, SECRET, token
from tablebell.topology import LIVE_EXCHANGE, declare_live

IDLE = 5_000
USERS = 1_000
FRAMES_A_SECOND = 500
LATENCY_SECONDS = 6
ROUNDS = 40
REPEATS = 3
BATCH = 500
READY = b'"type":"ready"'


async def measure(rig: Rig) -> list[Figure]:
    figures = await _memory(rig)
    async with rig.vhost() as amqp_url, open_broker(amqp_url, "bench") as broker, _gateway(amqp_url) as (port, gateway):
        crowd = Crowd()
        await crowd.join(port, "/ws", _hellos(USERS), READY)
        channel = await _channel(broker)
        figures += await _latency(rig, broker, channel, crowd)
        figures += await _throughput(rig, channel, crowd, gateway)
        crowd.leave()
    figures += await compare_with_web_stomp(rig, _gateway)
    return figures


async def _memory(rig: Rig) -> list[Figure]:
    rig.say(f"{IDLE} idle connections to a bare server and to the gateway")
    port = free_port()
    async with python_process("bench.gateway.bare", "websockets", str(port), environment={}, port=port) as server:
        bare, _ = await _held(server, port, "/", [b""] * IDLE, b"ready")
    async with rig.vhost() as amqp_url, _gateway(amqp_url) as (port, server):
        ours, held = await _held(server, port, "/ws", _hellos(IDLE), READY)
    return [
        Figure("memory per idle connection", ours, "KiB", bare, "≤ 1.3 of bare websockets", ours <= 1.3 * bare),
        Figure("connections held by one process", held, "connections", bar="≥ 5,000", ok=held >= IDLE),
    ]


async def _held(server: Measured, port: int, path: str, hellos: list[bytes], answer: bytes) -> tuple[float, int]:
    crowd = Crowd()
    await crowd.join(port, path, hellos[:200], answer)  # so that what the first connections load is not counted
    before = server.memory_kib
    await crowd.join(port, path, hellos[200:], answer)
    await asyncio.sleep(1)
    held = sum(not peer.transport.is_closing() for peer in crowd.peers)
    per_connection = (server.memory_kib - before) / (len(hellos) - 200)
    crowd.leave()
    await asyncio.sleep(0.5)
    return per_connection, held


async def _latency(rig: Rig, broker: Broker, channel: AbstractChannel, crowd: Crowd) -> list[Figure]:
    rig.say(f"{FRAMES_A_SECOND} frames a second to {USERS} users, a message each")
    bare: list[float] = []

    async def on_message(message: DeliveredMessage) -> None:
        now = time.perf_counter_ns()
        bare.extend((now - int(sent)) / 1e6 for sent in SENT_AT.findall(message.body))

    consumer = await _channel(broker)
    queue = (await consumer.queue_declare(exclusive=True, auto_delete=True)).queue
    await consumer.queue_bind(queue or "", LIVE_EXCHANGE)
    await consumer.basic_consume(queue or "", on_message, no_ack=True)
    latencies: list[float] = []
    crowd.latencies = latencies
    loop = asyncio.get_running_loop()
    started = loop.time()
    for number in range(FRAMES_A_SECOND * LATENCY_SECONDS):
        await asyncio.sleep(max(0.0, started + number / FRAMES_A_SECOND - loop.time()))
        text = json.dumps({"sentAt": time.perf_counter_ns(), "pad": "x" * 400}, separators=(",", ":")).encode()
        await channel.basic_publish(
            encode_frames([Addressed([f"CUSTOMER:{number % USERS + 1}"], text)]), exchange=LIVE_EXCHANGE
        )
    await asyncio.sleep(0.5)
    crowd.latencies = None
    await consumer.close()
    if len(latencies) != FRAMES_A_SECOND * LATENCY_SECONDS:
        raise RuntimeError(f"only {len(latencies)} frames arrived")
    ours, raw = statistics.quantiles(latencies, n=100), statistics.quantiles(bare, n=100)
    note = "ceiling: the same messages read by a bare consumer"
    return [
        Figure("exchange to socket, p50", ours[49], "ms", raw[49], "≤ 5 ms", ours[49] <= 5, note),
        Figure("exchange to socket, p99", ours[98], "ms", raw[98], "≤ 25 ms", ours[98] <= 25, note),
    ]


async def _throughput(rig: Rig, channel: AbstractChannel, crowd: Crowd, gateway: Measured) -> list[Figure]:
    text = notification(1, "x", body="x" * 200).text
    frames = [Addressed([f"CUSTOMER:{user + 1}"], text) for user in range(USERS)]
    messages = [encode_frames(frames[start : start + BATCH]) for start in range(0, USERS, BATCH)]
    size = 4 + len(text)
    total = USERS * ROUNDS
    port = free_port()
    ours, ours_cpu, bare, bare_cpu = [], [], [], []
    async with python_process("bench.gateway.bare", "loop", str(port), environment={}, port=port) as server:
        other = Crowd()
        await other.join(port, "/", [b""] * USERS, b"ready")
        for repeat in range(REPEATS):
            rig.say(f"{total} frames to {USERS} sockets, by a loop and by the gateway ({repeat + 1} of {REPEATS})")
            other.expect(total * size)
            cpu, started = server.cpu_seconds, time.perf_counter()
            other.peers[0].transport.write(masked(b"%d %s" % (ROUNDS, text)))
            await other.until_received()
            bare.append(total / (time.perf_counter() - started))
            bare_cpu.append(total / (server.cpu_seconds - cpu))

            crowd.expect(total * size)
            cpu, started = gateway.cpu_seconds, time.perf_counter()
            for _ in range(ROUNDS):
                for message in messages:
                    await channel.basic_publish(message, exchange=LIVE_EXCHANGE)
            await crowd.until_received()
            ours.append(total / (time.perf_counter() - started))
            ours_cpu.append(total / (gateway.cpu_seconds - cpu))
        other.leave()
    mine, loop = statistics.median(ours), statistics.median(bare)
    mine_cpu, loop_cpu = statistics.median(ours_cpu), statistics.median(bare_cpu)
    note = f"batches of {BATCH} frames a message, from publish to the last byte"
    return [
        Figure("frames a second", mine, "frames/s", loop, "≥ 0.5 of a bare loop", mine >= 0.5 * loop, note),
        Figure("frames per second of processor", mine_cpu, "frames/s", loop_cpu, note="the server process alone"),
    ]


def _hellos(people: int) -> list[bytes]:
    return [
        masked(json.dumps({"type": "auth", "token": token(f"CUSTOMER:{number + 1}")}).encode())
        for number in range(people)
    ]


async def _channel(broker: Broker) -> AbstractChannel:
    channel = await broker.open_channel(confirms=False, wait=10)
    await declare_live(channel)
    return await channel.get_underlay_channel()


@asynccontextmanager
async def _gateway(amqp_url: SecretStr) -> AsyncIterator[tuple[int, Measured]]:
    port = free_port()
    environment = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "AMQP_URL": amqp_url.get_secret_value(),
        "JWT_SECRET": SECRET,
        "JWT_AUDIENCE": AUDIENCE,
        "LOG_LEVEL": "WARNING",
    }
    async with python_process("ws_gateway", environment=environment, port=port) as server:
        await asyncio.sleep(1)  # for the feed
        yield port, server
