"""Wires reservation-api together and runs it."""

import asyncio
import sys
from datetime import timedelta
from functools import partial

from reservation_api import store
from reservation_api.app import build_app
from reservation_api.idempotency import KEEP, Idempotency
from reservation_api.settings import Settings
from reservation_api.sign_in import store as sign_in_store
from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.postgres import check, open_pool
from tablebell.purging import Purge, Retention
from tablebell.service import run_service
from tablebell.settings import load
from tablebell.wakeups import open_wakeup_sender
from tablebell.web import serve

SERVICE = "reservation-api"


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
        purge = Purge(
            pool,
            [
                Retention("idempotency_key", KEEP, store.purge_keys, is_history=False),
                Retention("sign_in", timedelta(days=1), sign_in_store.purge_sign_ins, is_history=False),
                Retention("sign_in_session", timedelta(0), sign_in_store.purge_sessions, is_history=False),
                Retention("revocation", timedelta(0), store.purge_revocations, is_history=False),
            ],
        )
        tasks.create_task(purge.run(settings.purge_seconds, stop), name="purge")


def main() -> int:
    settings = load(Settings, SERVICE)
    return run_service(SERVICE, settings, partial(serve_until, settings))


if __name__ == "__main__":
    sys.exit(main())
