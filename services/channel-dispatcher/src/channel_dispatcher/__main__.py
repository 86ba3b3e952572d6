"""Wires channel-dispatcher together and runs it."""

import asyncio
import sys
from functools import partial

from channel_dispatcher.settings import Settings
from tablebell.health import Health
from tablebell.lifecycle import Stop, run
from tablebell.logs import configure_logs
from tablebell.postgres import check, open_pool
from tablebell.settings import load
from tablebell.web import health_app, serve

SERVICE = "channel-dispatcher"


async def serve_until(settings: Settings, stop: Stop) -> None:
    async with (
        open_pool(settings.database_url, SERVICE, settings.database_pool_size) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        health = Health(stop, {"postgres": partial(check, pool)})
        tasks.create_task(serve(health_app(SERVICE, health), settings.host, settings.port, stop), name="http")


def main() -> int:
    settings = load(Settings, SERVICE)
    configure_logs(SERVICE, settings.log_level)
    return run(partial(serve_until, settings), settings.drain_seconds)


if __name__ == "__main__":
    sys.exit(main())
