"""CPU time of an idle relay."""

import asyncio

from pydantic import SecretStr

from bench.harness import Figure, Harness
from bench.relay.process import relays
from tablebell.postgres import Pool
from tablebell.testing import Database

SECONDS = 20


async def measure_idle(harness: Harness, database: Database, amqp_url: SecretStr, pool: Pool) -> list[Figure]:
    async with relays(1, database, amqp_url, pool) as (relay,):
        await asyncio.sleep(1.0)
        before = relay.cpu_seconds
        await asyncio.sleep(SECONDS)
        share = 100 * (relay.cpu_seconds - before) / SECONDS
    harness.say(f"idle: {share:.2f} % of a core")
    return [Figure("idle", share, "% of a core", bar="< 1 %", ok=share < 1)]
