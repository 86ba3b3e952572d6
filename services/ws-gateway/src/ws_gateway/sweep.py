"""One timer for all connections: pings, heart-beats, expired tokens, those who never said who they are."""

import asyncio
from collections.abc import Callable

SWEEP_SECONDS = 0.25


async def keep_sweeping(sweep: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        sweep(loop.time())
