"""Wires notification-fanout together and runs it."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from notification_fanout import store
from notification_fanout.catch_up import CatchUp
from notification_fanout.expander import Expander
from notification_fanout.frame_backlog import FrameBacklog
from notification_fanout.frame_publisher import FramePublisher
from notification_fanout.listener import EventListener
from notification_fanout.settings import Settings
from tablebell import wakeups
from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outbox import CLAIM_PLANNER_SETTINGS, Level, OutboxGauges, OutboxTable, outbox_retentions
from tablebell.partitions import PARTITIONS, Partitions
from tablebell.people import Audience
from tablebell.postgres import Connection, check, open_pool
from tablebell.purging import Purge, Retention
from tablebell.rabbit import Consumer, open_broker
from tablebell.retry import RetryPolicy
from tablebell.service import run_service
from tablebell.settings import load
from tablebell.topology import DEAD_QUEUE, EVENT_QUEUES, declare_events
from tablebell.wakeups import Wakeup, open_wakeup_sender
from tablebell.web import health_app, serve

SERVICE = "notification-fanout"
PARTITION_NAMESPACE = 43
# Planning a statement over partitioned tables costs as much as running it for a small batch, so plans are generic. The
# other settings keep a plan on the indexes even if the tables were short when it was made.
PLANNER_SETTINGS = CLAIM_PLANNER_SETTINGS | {"plan_cache_mode": "force_generic_plan"}


async def serve_until(settings: Settings, stop: Stop) -> None:
    async with (
        open_pool(settings.database_url, SERVICE, settings.database_pool_size, PLANNER_SETTINGS) as pool,
        open_broker(settings.amqp_url, SERVICE) as consuming,
        open_broker(settings.amqp_url, SERVICE, for_publishing=True) as publishing,
        open_wakeup_sender(pool) as wakeup_sender,
        contextlib.aclosing(FramePublisher(publishing)) as frame_publisher,
        asyncio.TaskGroup() as tasks,
    ):
        outbox = OutboxTable(Level.NOTIFICATION)
        wakeup_listener = wakeups.WakeupListener(settings.database_url, SERVICE)
        announced = wakeup_listener.subscribe(Level.NOTIFICATION)
        partitions = Partitions(settings.database_url, SERVICE, PARTITION_NAMESPACE, on_acquired, announced)
        expander = Expander(
            pool,
            frame_publisher,
            wakeup_sender,
            partitions,
            batch_size=settings.batch_size,
            lease=timedelta(seconds=settings.lease_seconds),
            retry=RetryPolicy.exponential(settings.max_attempts),
            limits=settings.recipient_limits,
            linger_seconds=settings.expander_linger_seconds,
        )

        def announce() -> None:
            announced.now()
            if len(partitions.owned) < PARTITIONS:  # other replicas expand too
                wakeup_sender.announce(Level.NOTIFICATION)

        backlog = FrameBacklog(pool, frame_publisher)
        consumers = [
            Consumer(
                consuming,
                EVENT_QUEUES[audience],
                DEAD_QUEUE,
                EventListener(audience, pool, frame_publisher, announce).handle,
                declare_events,
                batch_size=settings.listener_batch_size,
                linger_seconds=settings.listener_linger_seconds,
                hold_seconds=settings.consumer_timeout_seconds / 2,
                dead_letters=publishing,
                dead_letter_ttl=settings.dead_retention,
                recovery=CatchUp(pool, audience, settings.listener_batch_size),
            )
            for audience in Audience
        ]

        async def check_brokers() -> None:
            await consuming.check()
            await publishing.check()

        async def check_listeners() -> None:
            for consumer in consumers:
                await consumer.check()

        for consumer in consumers:
            tasks.create_task(consumer.run(stop), name=consumer.queue)
        tasks.create_task(wakeup_listener.run(stop), name="wakeup_listener")
        tasks.create_task(partitions.run(stop), name="partitions")
        tasks.create_task(
            keep_running("expander", expander.run_once, announced, settings.poll_seconds, stop),
            name="expander",
        )
        tasks.create_task(keep_running("frames", backlog.run_once, Wakeup(), backlog.poll_seconds, stop), name="frames")
        purge = Purge(pool, retentions(settings, outbox))
        tasks.create_task(purge.run(settings.purge_seconds, stop), name="purge")
        health = Health(
            stop,
            {
                "postgres": partial(check, pool),
                "rabbitmq": check_brokers,
                "partitions": partitions.check,
                "listeners": check_listeners,
            },
        )
        gauges = OutboxGauges(pool, outbox)
        app = health_app(SERVICE, health, gauges.refresh)
        tasks.create_task(serve(app, settings.host, settings.port, stop), name="http")


def retentions(settings: Settings, outbox: OutboxTable) -> list[Retention]:
    return [
        *outbox_retentions(outbox, done=settings.retention, dead=settings.dead_retention),
        # Detects redelivered messages: it must be kept for longer than a message can stay in a queue.
        Retention("processed_event", settings.retention, store.purge_processed_events),
        Retention("event_notification", timedelta(days=settings.inbox_retention_days), store.purge_event_notifications),
    ]


async def on_acquired(_connection: Connection, _partitions: Sequence[int]) -> None:
    """Nothing to release: an expander leases rows only within a transaction, so a crash leaves no lease."""


def main() -> int:
    settings = load(Settings, SERVICE)
    return run_service(SERVICE, settings, partial(serve_until, settings))


if __name__ == "__main__":
    sys.exit(main())
