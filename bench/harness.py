"""The harness that a measurement gets, and the figures that it returns.

A module of this package measures one hop: `async def measure(harness: Harness) -> list[Figure]`. It measures its raw
ceiling in the same run, in turns, because the speed of the machine varies over time.
"""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from tablebell.postgres import connect
from tablebell.testing import Database, Servers
from tablebell.testing.database import copy_template, drop


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    ceiling: float | None = None
    """The raw ceiling: the same work without Tablebell, on the same machine, in the same unit and run."""
    bar: str = ""
    ok: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.ceiling if self.ceiling else None


@dataclass(frozen=True, slots=True)
class Harness:
    servers: Servers
    template: str
    hop: str
    started: float

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Database]:
        """A fresh, migrated database with the people of the demo.

        Its files are already synced to disk, so that no later commit waits for them.
        """
        database = await copy_template(self.servers.database_url, self.template)
        connection = await connect(database.url, "bench")
        await connection.execute("CHECKPOINT")
        await connection.close()
        await asyncio.to_thread(os.sync)
        try:
            yield database
        finally:
            await drop(self.servers.database_url, database.name)

    @asynccontextmanager
    async def vhost(self) -> AsyncIterator[SecretStr]:
        name = f"bench-{uuid.uuid4().hex[:12]}"
        try:
            yield await self.servers.create_vhost(name)
        finally:
            await self.servers.delete_vhost(name)

    def say(self, text: str) -> None:
        """Print progress."""
        print(f"{time.monotonic() - self.started:6.1f} s  {self.hop}: {text}", flush=True)
