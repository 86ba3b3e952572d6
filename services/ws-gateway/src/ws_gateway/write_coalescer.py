"""Schedules the writes of all connections, and combines them under load.

A frame costs mostly the system call that writes it. After a flush of many connections, the next flush waits a few
milliseconds: frames for the same connection then leave in one write. Without load a frame is written at once.
"""

import asyncio
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)

BUSY_CONNECTIONS = 100
"""A flush of this many connections counts as load."""
COALESCE_SECONDS = 0.005


class Flushable(Protocol):
    def flush(self) -> None:
        """Write the pending frames."""


class WriteCoalescer:
    def __init__(self) -> None:
        self._pending: list[Flushable] = []
        self._coalesce_until = 0.0

    def add(self, connection: Flushable) -> None:
        """Schedule one flush of this connection. Call it once per flush."""
        self._pending.append(connection)
        if len(self._pending) == 1:
            loop = asyncio.get_running_loop()
            if loop.time() < self._coalesce_until:
                loop.call_at(self._coalesce_until, self._flush)
            else:
                loop.call_soon(self._flush)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for connection in pending:
            try:
                connection.flush()
            except Exception:  # an error in one connection must not stop the others
                log.exception("flush_failed")
        if len(pending) >= BUSY_CONNECTIONS:
            self._coalesce_until = asyncio.get_running_loop().time() + COALESCE_SECONDS
