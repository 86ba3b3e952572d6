"""CPU time of an idle relay."""

import asyncio
import os
from pathlib import Path

from pydantic import SecretStr

from bench.harness import Figure, Harness
from bench.relay.process import relays
from tablebell.postgres import Pool
from tablebell.testing import Database

SECONDS = 20


async def measure_idle(harness: Harness, database: Database, amqp_url: SecretStr, pool: Pool) -> list[Figure]:
    async with relays(1, database, amqp_url, pool) as (pid,):
        await asyncio.sleep(1.0)
        before = _cpu_seconds(pid)
        await asyncio.sleep(SECONDS)
        share = 100 * (_cpu_seconds(pid) - before) / SECONDS
    harness.say(f"idle: {share:.2f} % of a core")
    return [Figure("idle", share, "% of a core", bar="< 1 %", ok=share < 1)]


def _cpu_seconds(pid: int) -> float:
    # utime and stime are the 12th and 13th field after the name, which may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
