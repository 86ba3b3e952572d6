"""Detects the crash of another member at once: it waits for that member's lock, which PostgreSQL releases with its
connection.

It uses a connection of its own, because a waiting connection receives no notifications. A waiting statement holds a
snapshot, which delays vacuum in the whole database, so each wait has a timeout and is repeated.
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
        self._member: int | None = None
        self._task: asyncio.Task[None] | None = None

    def watch(self, member: int | None) -> None:
        """Watch this member instead of the previous one; None watches nobody."""
        if member == self._member and self._task is not None and not self._task.done():
            return
        if self._task is not None:
            self._task.cancel()
        self._member = member
        self._task = None if member is None else asyncio.create_task(self._watch(member), name="peer-watch")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, member: int) -> None:
        while True:
            try:
                return await self._wait_for_departure(member)
            except OUTAGES as outage:
                log.warning("peer_watch_interrupted", error=describe(outage))
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _wait_for_departure(self, member: int) -> None:
        connection = await connect(self._url, f"{self._service} peer watch")
        try:
            await connection.execute(SQL["set_lock_timeout"], f"{WAIT_SECONDS}s")
            while True:
                with contextlib.suppress(asyncpg.LockNotAvailableError):
                    await connection.execute(
                        SQL["wait_for_departure"], self._namespace, member, timeout=2 * WAIT_SECONDS
                    )
                    break
            await connection.execute(SQL["announce"], self._channel)  # all members receive it, this one included
            log.info("member_departed", member=member)
        finally:
            with contextlib.suppress(*OUTAGES):
                await connection.close(timeout=1.0)
