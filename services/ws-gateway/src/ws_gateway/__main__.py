"""Wires ws-gateway together and runs it."""

import asyncio
import sys
from functools import partial

from tablebell.health import Health
from tablebell.lifecycle import Stop, run
from tablebell.logs import configure_logs
from tablebell.rabbit import open_broker
from tablebell.settings import load
from tablebell.web import health_app, serve
from ws_gateway.settings import Settings

SERVICE = "ws-gateway"


async def serve_until(settings: Settings, stop: Stop) -> None:
    async with open_broker(settings.amqp_url, SERVICE) as broker, asyncio.TaskGroup() as tasks:
        health = Health(stop, {"rabbitmq": broker.check})
        tasks.create_task(serve(health_app(SERVICE, health), settings.host, settings.port, stop), name="http")


def main() -> int:
    settings = load(Settings, SERVICE)
    configure_logs(SERVICE, settings.log_level)
    return run(partial(serve_until, settings), settings.drain_seconds)


if __name__ == "__main__":
    sys.exit(main())
