"""How a deploy ends connections: one after the other, so that they do not all come back to the next process at once."""

import asyncio
import random
from collections.abc import Collection

import structlog

from ws_gateway.closecodes import CloseCode
from ws_gateway.connection import Connection

log = structlog.get_logger(__name__)


async def close_gradually(connections: Collection[Connection], seconds: float) -> None:
    """Close what is open with 1012, in random order, spread evenly over `seconds`."""
    leaving = [connection for connection in connections if connection.is_open]
    random.shuffle(leaving)
    log.info("connections_closing", count=len(leaving), seconds=seconds)
    loop = asyncio.get_running_loop()
    started = loop.time()
    for place, connection in enumerate(leaving):
        delay = started + seconds * place / len(leaving) - loop.time()
        if delay > 0:
            await asyncio.sleep(delay)
        connection.close(CloseCode.GOING_AWAY, "restarting")


async def wait_until_gone(connections: Collection[Connection], seconds: float) -> None:
    """Let the peers answer; who has not by then is cut off."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while connections and loop.time() < deadline:  # noqa: ASYNC110 - once in a process's life
        await asyncio.sleep(0.05)
    for connection in list(connections):
        connection.abort()
