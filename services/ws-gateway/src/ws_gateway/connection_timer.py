"""One timer for all connections: pings, heart-beats, expired tokens and missing authentication."""

import asyncio
from collections.abc import Callable

TICK_SECONDS = 0.25


async def run_connection_timer(tick: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(TICK_SECONDS)
        tick(loop.time())
