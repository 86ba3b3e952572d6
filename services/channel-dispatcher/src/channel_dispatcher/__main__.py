"""Wires channel-dispatcher together and runs it."""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

from channel_dispatcher import store
from channel_dispatcher.breaker import Breaker, State
from channel_dispatcher.disabled_channel import DisabledChannelSkipper
from channel_dispatcher.dispatcher import Dispatcher
from channel_dispatcher.failure_attribution import FailureAttribution
from channel_dispatcher.leases import LeaseKeeper
from channel_dispatcher.marks import MarkLimit
from channel_dispatcher.metrics import BREAKER_STATE, SMS_LAST_DAY, SMS_PER_DAY, WITHDRAWN
from channel_dispatcher.provider_health import ProviderHealth
from channel_dispatcher.recorder import Recorder
from channel_dispatcher.settings import Loaded, Settings, load_all
from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outbox import Level, OutboxGauges, OutboxTable, outbox_retentions
from tablebell.people import DURABLE_CHANNELS
from tablebell.postgres import Pool, check, open_pool
from tablebell.purging import Purge, Retention
from tablebell.retry import RetryPolicy
from tablebell.service import run_service
from tablebell.wakeups import WakeupListener, open_wakeup_sender
from tablebell.web import health_app, serve

SERVICE = "channel-dispatcher"


async def serve_until(loaded: Loaded, stop: Stop) -> None:
    settings = loaded.settings
    lease = timedelta(seconds=settings.lease_seconds)
    policy = RetryPolicy(settings.max_attempts, tuple(timedelta(seconds=pause) for pause in settings.retry_pauses))
    async with AsyncExitStack() as resources:
        pool = await resources.enter_async_context(
            open_pool(settings.database_url, SERVICE, settings.database_pool_size)
        )
        wakeup_sender = await resources.enter_async_context(open_wakeup_sender(pool))
        listener = WakeupListener(settings.database_url, SERVICE)
        marks = MarkLimit(
            pool,
            share=settings.address_mark_share,
            window=timedelta(seconds=settings.address_mark_window_seconds),
            least=settings.address_mark_least,
        )
        recorder = Recorder(pool, marks)
        dispatchers = [
            Dispatcher(
                spec.channel,
                await resources.enter_async_context(spec.open(channel_settings, settings.provider_timeout_seconds)),
                pool=pool,
                recorder=recorder,
                health=ProviderHealth(
                    spec.channel, Breaker(time.monotonic), FailureAttribution(), shared_address=spec.shared_address
                ),
                limits=channel_settings.limits,
                policy=policy,
                wakeup=listener.subscribe(Level.CHANNEL_SEND),
                lease=lease,
                batch_size=settings.batch_size,
                stop=stop,
            )
            for spec, channel_settings in loaded.channels
        ]
        skippers = [
            (DisabledChannelSkipper(channel, pool), listener.subscribe(Level.CHANNEL_SEND)) for channel in loaded.off
        ]
        health = Health(stop, {"postgres": partial(check, pool)})
        outbox = OutboxTable(Level.CHANNEL_SEND)
        purge = Purge(pool, retentions(settings, outbox))
        gauges = OutboxGauges(pool, outbox, DURABLE_CHANNELS)
        SMS_PER_DAY.set(loaded.sms_per_day)
        app = health_app(SERVICE, health, partial(refresh_gauges, gauges, pool, dispatchers, loaded.sms_per_day))

        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(recorder.run(), name="recorder")
            keeping = tasks.create_task(LeaseKeeper(pool, dispatchers, recorder, lease).run(), name="leases")
            async with asyncio.TaskGroup() as work:
                work.create_task(serve(app, settings.host, settings.port, stop), name="http")
                work.create_task(listener.run(stop), name="listener")
                work.create_task(purge.run(settings.purge_seconds, stop), name="purge")
                for dispatcher in dispatchers:
                    work.create_task(dispatcher.run(settings.poll_seconds), name=dispatcher.channel)
                for skipper, wakeup in skippers:
                    name = f"skip-{skipper.channel}"
                    loop = keep_running(name, skipper.run_once, wakeup, settings.poll_seconds, stop)
                    work.create_task(loop, name=name)
            keeping.cancel()
            recorder.finish()
            await recording
        # Claimed rows that were not tried are free again: wake the other replicas before their next poll.
        wakeup_sender.announce(Level.CHANNEL_SEND)


def retentions(settings: Settings, outbox: OutboxTable) -> list[Retention]:
    mark_days = timedelta(days=settings.address_mark_days)  # after that the address may be valid again
    return [
        *outbox_retentions(outbox, done=settings.retention, dead=settings.dead_retention),
        Retention("undeliverable_address", mark_days, store.purge_marks, is_history=False),
    ]


async def refresh_gauges(gauges: OutboxGauges, pool: Pool, dispatchers: list[Dispatcher], sms_per_day: int) -> None:
    await gauges.refresh()
    for dispatcher in dispatchers:
        for state in State:
            BREAKER_STATE.labels(dispatcher.channel, state).set(dispatcher.breaker.state is state)
    withdrawn = await store.count_withdrawn(pool)
    for channel in DURABLE_CHANNELS:
        WITHDRAWN.labels(channel).set(withdrawn.get(channel, 0))
    if sms_per_day:
        SMS_LAST_DAY.set(await store.count_sms(pool))


def main() -> int:
    loaded = load_all(SERVICE)
    return run_service(SERVICE, loaded.settings, partial(serve_until, loaded))


if __name__ == "__main__":
    sys.exit(main())
