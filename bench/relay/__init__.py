"""event-relay: throughput, latency, cost when idle, and cost of a claim with a long history."""

from bench.harness import Figure, Harness
from bench.relay.drain import Drain
from bench.relay.history import measure_history
from bench.relay.idle import measure_idle
from bench.relay.latency import measure_latency
from tablebell.postgres import open_pool


async def measure(harness: Harness) -> list[Figure]:
    async with (
        harness.database() as database,
        harness.vhost() as amqp_url,
        open_pool(database.url, "bench", 10) as pool,
    ):
        drained = await Drain(harness, database, amqp_url, pool).measure()
        latency = await measure_latency(harness, database, amqp_url, pool)
        idle = await measure_idle(harness, database, amqp_url, pool)
    return [*drained, *latency, *idle, *await measure_history(harness)]
