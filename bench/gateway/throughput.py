"""Frames per second, of a loop that only writes and of the gateway, measured in turns."""

import statistics
import time

from aiormq.abc import AbstractChannel

from bench.gateway.clients import ClientGroup, masked
from bench.gateway.processes import BARE_SERVERS
from bench.harness import Figure, Harness
from bench.process import MeasuredProcess, python_process
from tablebell.frames import AddressedFrame, encode_frames
from tablebell.testing import free_port
from tablebell.testing.frames import notification
from tablebell.topology import LIVE_EXCHANGE

ROUNDS = 40
REPEATS = 3
BATCH = 500


async def measure_throughput(
    harness: Harness, channel: AbstractChannel, clients: ClientGroup, gateway: MeasuredProcess
) -> list[Figure]:
    users = len(clients.clients)
    text = notification(1, "x", body="x" * 200).text
    frames = [AddressedFrame([f"CUSTOMER:{user + 1}"], text) for user in range(users)]
    messages = [encode_frames(frames[start : start + BATCH]) for start in range(0, users, BATCH)]
    size = 4 + len(text)
    total = users * ROUNDS
    port = free_port()
    ours, ours_cpu, bare, bare_cpu = [], [], [], []
    async with python_process(BARE_SERVERS, "loop", str(port), port=port, has_health=False) as server:
        bare_clients = ClientGroup()
        await bare_clients.connect(port, "/", [b""] * users, b"ready")
        for repeat in range(REPEATS):
            harness.say(f"{total} frames to {users} sockets, by a loop and by the gateway ({repeat + 1} of {REPEATS})")
            bare_clients.expect(total * size)
            cpu, started = server.cpu_seconds, time.perf_counter()
            bare_clients.clients[0].transport.write(masked(b"%d %s" % (ROUNDS, text)))
            await bare_clients.wait_for_expected()
            bare.append(total / (time.perf_counter() - started))
            bare_cpu.append(total / (server.cpu_seconds - cpu))

            clients.expect(total * size)
            cpu, started = gateway.cpu_seconds, time.perf_counter()
            for _ in range(ROUNDS):
                for message in messages:
                    await channel.basic_publish(message, exchange=LIVE_EXCHANGE)
            await clients.wait_for_expected()
            ours.append(total / (time.perf_counter() - started))
            ours_cpu.append(total / (gateway.cpu_seconds - cpu))
        bare_clients.abort()
    rate, ceiling = statistics.median(ours), statistics.median(bare)
    cpu_rate, cpu_ceiling = statistics.median(ours_cpu), statistics.median(bare_cpu)
    note = f"batches of {BATCH} frames a message, from publish to the last byte"
    return [
        Figure("frames a second", rate, "frames/s", ceiling, "≥ 0.5 of a bare loop", rate >= 0.5 * ceiling, note),
        Figure("frames per second of processor", cpu_rate, "frames/s", cpu_ceiling, note="the server process alone"),
    ]
