"""Wires ws-gateway together and runs it."""

import asyncio
import sys
from functools import partial

import structlog

from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.rabbit import open_broker
from tablebell.service import run_service
from tablebell.settings import load
from tablebell.tokens import TokenVerifier
from ws_gateway.access_watch import AccessWatch
from ws_gateway.admission import Admission
from ws_gateway.connection_timer import run_connection_timer
from ws_gateway.drain import close_gradually, wait_until_closed
from ws_gateway.frame_consumer import FrameConsumer
from ws_gateway.gateway import AnySession, Gateway
from ws_gateway.pages import Pages
from ws_gateway.registry import Registry
from ws_gateway.revocations import Revocations
from ws_gateway.router import Router
from ws_gateway.server import open_server
from ws_gateway.settings import Settings

log = structlog.get_logger(__name__)

SERVICE = "ws-gateway"


async def serve_until(settings: Settings, stop: Stop) -> None:
    health = Health(stop)
    registry: Registry[AnySession] = Registry(settings.max_connections_per_user)
    tokens = TokenVerifier.from_settings(settings)
    revocations = Revocations(settings.revoked_tokens_file)
    gateway = Gateway(
        settings,
        tokens,
        revocations,
        registry,
        Pages(health, settings.public_api_url),
        stop,
        Admission(settings),
    )
    health.checks["keys"] = tokens.check
    if settings.internal_api_url is not None and settings.internal_api_token is not None:
        gateway.access_watch = AccessWatch(
            settings.internal_api_url,
            settings.internal_api_token,
            revocations.replace,
            gateway.refuse_people,
            settings.access_poll_seconds,
        )
        health.checks["revocations"] = gateway.access_watch.check
    async with (
        open_broker(settings.amqp_url, SERVICE) as broker,
        open_server(gateway.create_connection, settings.host, settings.port),
        asyncio.TaskGroup() as tasks,
    ):
        consumer = FrameConsumer(broker, Router(registry).route, gateway.set_live, settings.queue_length)
        health.checks["rabbitmq"] = consumer.check
        # These run until the last connection is closed. If one fails, the service ends.
        background = [
            tasks.create_task(consumer.run(), name="frame-consumer"),
            tasks.create_task(run_connection_timer(gateway.tick), name="connection-timer"),
            tasks.create_task(tokens.keep_fresh(), name="token-keys"),
        ]
        if gateway.access_watch is not None:
            background.append(tasks.create_task(gateway.access_watch.run(), name="access-watch"))
        else:
            log.warning("revocations_not_watched", setting="INTERNAL_API_URL")
        await stop.wait()
        await close_gradually(gateway.connections, seconds=0.7 * settings.drain_seconds)
        await wait_until_closed(gateway.connections, seconds=0.2 * settings.drain_seconds)
        for task in background:
            task.cancel()


def main() -> int:
    settings = load(Settings, SERVICE)
    return run_service(SERVICE, settings, partial(serve_until, settings))


if __name__ == "__main__":
    sys.exit(main())
