"""Wires reservation-api together and runs it."""

import asyncio
import sys
from functools import partial

from reservation_api.access import purge_revocations
from reservation_api.app import build_app
from reservation_api.idempotency import Idempotency
from reservation_api.settings import Settings
from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.postgres import check, open_pool
from tablebell.purging import keep_purging
from tablebell.service import run_service
from tablebell.settings import load
from tablebell.wakeups import open_wakeup_sender
from tablebell.web import serve

SERVICE = "reservation-api"
PURGE_SECONDS = 600.0


async def serve_until(settings: Settings, stop: Stop) -> None:
    async with (
        open_pool(settings.database_url, SERVICE, settings.database_pool_size) as pool,
        open_wakeup_sender(pool) as wakeup_sender,
        asyncio.TaskGroup() as tasks,
    ):
        idempotency = Idempotency(pool)
        health = Health(stop, {"postgres": partial(check, pool)})
        app = build_app(settings, pool, wakeup_sender, idempotency, health)
        tasks.create_task(serve(app, settings.host, settings.port, stop, settings.http_limits), name="http")
        purging_keys = keep_purging("idempotency-keys", idempotency.purge_once, PURGE_SECONDS, stop)
        tasks.create_task(purging_keys, name="purge-idempotency-keys")
        purging_revocations = keep_purging("revocations", partial(purge_revocations, pool), PURGE_SECONDS, stop)
        tasks.create_task(purging_revocations, name="purge-revocations")


def main() -> int:
    settings = load(Settings, SERVICE)
    return run_service(SERVICE, settings, partial(serve_until, settings))


if __name__ == "__main__":
    sys.exit(main())
