"""The time from publishing a frame to its arrival at a client, compared with a bare consumer of the same messages."""

import asyncio
import json
import statistics
import time

from aiormq.abc import AbstractChannel, DeliveredMessage

from bench.gateway.clients import SENT_AT, ClientGroup
from bench.gateway.processes import open_live_channel
from bench.harness import Figure, Harness
from tablebell.frames import AddressedFrame, encode_frames
from tablebell.rabbit import Broker
from tablebell.topology import LIVE_EXCHANGE

FRAMES_PER_SECOND = 500
SECONDS = 6


async def measure_latency(
    harness: Harness, broker: Broker, channel: AbstractChannel, clients: ClientGroup
) -> list[Figure]:
    users = len(clients.clients)
    harness.say(f"{FRAMES_PER_SECOND} frames a second to {users} users, a message each")
    bare: list[float] = []

    async def on_message(message: DeliveredMessage) -> None:
        now = time.perf_counter_ns()
        bare.extend((now - int(sent)) / 1e6 for sent in SENT_AT.findall(message.body))

    consumer = await open_live_channel(broker)
    queue = (await consumer.queue_declare(exclusive=True, auto_delete=True)).queue
    await consumer.queue_bind(queue or "", LIVE_EXCHANGE)
    await consumer.basic_consume(queue or "", on_message, no_ack=True)
    latencies: list[float] = []
    clients.latencies = latencies
    loop = asyncio.get_running_loop()
    started = loop.time()
    for number in range(FRAMES_PER_SECOND * SECONDS):
        await asyncio.sleep(max(0.0, started + number / FRAMES_PER_SECOND - loop.time()))
        text = json.dumps({"sentAt": time.perf_counter_ns(), "pad": "x" * 400}, separators=(",", ":")).encode()
        frame = AddressedFrame([f"CUSTOMER:{number % users + 1}"], text)
        await channel.basic_publish(encode_frames([frame]), exchange=LIVE_EXCHANGE)
    await asyncio.sleep(0.5)
    clients.latencies = None
    await consumer.close()
    if len(latencies) != FRAMES_PER_SECOND * SECONDS:
        raise RuntimeError(f"only {len(latencies)} frames arrived")
    ours, ceiling = statistics.quantiles(latencies, n=100), statistics.quantiles(bare, n=100)
    note = "ceiling: the same messages read by a bare consumer"
    return [
        Figure("exchange to socket, p50", ours[49], "ms", ceiling[49], "≤ 5 ms", ours[49] <= 5, note),
        Figure("exchange to socket, p99", ours[98], "ms", ceiling[98], "≤ 25 ms", ours[98] <= 25, note),
    ]
