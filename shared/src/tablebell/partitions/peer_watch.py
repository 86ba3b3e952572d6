"""Noticing at once that another member died: we wait for the lock of its seat, which goes with its connection.

On a connection of its own, since a waiting one hears nothing else. A waiting statement keeps a snapshot, which holds
back the vacuum of the whole database; so it waits for a bounded time, again and again.
"""

import asyncio
import contextlib

import asyncpg
import structlog
from pydantic import SecretStr

from tablebell.outage import OUTAGES, describe
from tablebell.postgres import connect
from tablebell.sqlfile import load_queries

log = structlog.get_logger(__name__)

WAIT_SECONDS = 30
RECONNECT_SECONDS = 1.0

SQL = load_queries("tablebell.partitions", "sql", "locks.sql")


class PeerWatch:
    def __init__(self, url: SecretStr, service: str, namespace: int, channel: str) -> None:
        self._url = url
        self._service = service
        self._namespace = namespace
        self._channel = channel
        self._seat: int | None = None
        self._waiting: asyncio.Task[None] | None = None

    def watch(self, seat: int | None) -> None:
        """Watch this seat and no other; None when there is nobody to watch."""
        if seat == self._seat and self._waiting is not None and not self._waiting.done():
            return
        if self._waiting is not None:
            self._waiting.cancel()
        self._seat = seat
        self._waiting = None if seat is None else asyncio.create_task(self._wait(seat), name="vigil")

    async def end(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _wait(self, seat: int) -> None:
        while True:
            try:
                return await self._until_empty(seat)
            except OUTAGES as outage:
                log.warning("vigil_interrupted", error=describe(outage))
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _until_empty(self, seat: int) -> None:
        connection = await connect(self._url, f"{self._service} vigil")
        try:
            await connection.execute(SQL["limit_waiting"], f"{WAIT_SECONDS}s")
            while True:
                with contextlib.suppress(asyncpg.LockNotAvailableError):
                    await connection.execute(SQL["await_departure"], self._namespace, seat, timeout=2 * WAIT_SECONDS)
                    break
            await connection.execute(SQL["announce"], self._channel)  # to all, and so to ourselves
            log.info("member_departed", seat=seat)
        finally:
            with contextlib.suppress(*OUTAGES):
                await connection.close(timeout=1.0)
