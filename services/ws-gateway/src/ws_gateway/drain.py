"""Closes the connections at shutdown over a period, so that the clients do not all reconnect at once."""

import asyncio
import random
from collections.abc import Collection

import structlog

from ws_gateway.close_codes import CloseCode
from ws_gateway.connection import Connection

log = structlog.get_logger(__name__)


async def close_gradually(connections: Collection[Connection], seconds: float) -> None:
    """Close the open connections with 1012, in random order, spread evenly over `seconds`."""
    closing = [connection for connection in connections if connection.is_open]
    random.shuffle(closing)
    log.info("connections_closing", count=len(closing), seconds=seconds)
    loop = asyncio.get_running_loop()
    started = loop.time()
    for index, connection in enumerate(closing):
        delay = started + seconds * index / len(closing) - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)
        connection.close(CloseCode.SERVICE_RESTART, "restarting")


async def wait_until_closed(connections: Collection[Connection], seconds: float) -> None:
    """Wait until the peers have answered the close. Abort the remaining connections after `seconds`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while connections and loop.time() < deadline:  # noqa: ASYNC110 - runs once, at shutdown
        await asyncio.sleep(0.05)
    for connection in list(connections):
        connection.abort()
