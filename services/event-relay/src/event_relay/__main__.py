"""Creates the parts of event-relay and runs them."""

import asyncio
import sys
from functools import partial

from event_relay import metrics
from event_relay.abandoned_leases import release_abandoned_leases
from event_relay.ordered_publisher import OrderedPublisher
from event_relay.recorder import Recorder
from event_relay.relay import Relay
from event_relay.settings import Settings
from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.outbox import CLAIM_PLANNER_SETTINGS, Level, OutboxGauges, OutboxQueue, outbox_retentions
from tablebell.partitions import Partitions
from tablebell.postgres import check, open_pool
from tablebell.purging import Purge
from tablebell.rabbit import Publisher, open_broker
from tablebell.retry import RetryPolicy
from tablebell.service import run_service
from tablebell.settings import load
from tablebell.topology import declare_stream
from tablebell.wakeups import WakeupListener
from tablebell.web import health_app, serve

SERVICE = "event-relay"
NAMESPACE = 42
"""First key of the advisory locks that assign the partitions to relays."""


async def serve_until(settings: Settings, stop: Stop) -> None:
    async with (
        open_pool(settings.database_url, SERVICE, settings.database_pool_size, CLAIM_PLANNER_SETTINGS) as pool,
        open_broker(settings.amqp_url, SERVICE, for_publishing=True) as broker,
        asyncio.TaskGroup() as tasks,
    ):
        outbox = OutboxQueue(Level.EVENT)
        listener = WakeupListener(settings.database_url, SERVICE)
        wakeup = listener.subscribe(Level.EVENT)
        partitions = Partitions(settings.database_url, SERVICE, NAMESPACE, release_abandoned_leases, wakeup)
        publisher = Publisher(broker, declare_stream, confirm_seconds=None, window=settings.batch_size)
        policy = RetryPolicy.exponential(settings.max_attempts)
        relay = Relay(
            pool=pool,
            outbox=outbox,
            broker=broker,
            ordered_publisher=OrderedPublisher(publisher, policy, settings.publish_timeout_seconds),
            recorder=Recorder(pool, outbox, settings.max_attempts),
            partitions=partitions,
            wakeup=wakeup,
            batch_size=settings.batch_size,
            lease=settings.lease,
            poll_seconds=settings.poll_seconds,
        )
        purge = Purge(pool, outbox_retentions(outbox, done=settings.retention, dead=settings.dead_retention))
        gauges = OutboxGauges(pool, outbox)
        metrics.OWNED.set_function(lambda: len(partitions.owned))
        metrics.IN_FLIGHT.set_function(lambda: relay.in_flight)
        health = Health(
            stop, {"postgres": partial(check, pool), "rabbitmq": broker.check, "partitions": partitions.check}
        )
        app = health_app(SERVICE, health, gauges.refresh)

        tasks.create_task(partitions.run(stop), name="partitions")
        if settings.relay_wakeups:
            tasks.create_task(listener.run(stop), name="listener")
        tasks.create_task(relay.run(stop), name="relay")
        tasks.create_task(purge.run(settings.purge_seconds, stop), name="purge")
        tasks.create_task(serve(app, settings.host, settings.port, stop), name="http")


def main() -> int:
    settings = load(Settings, SERVICE)
    return run_service(SERVICE, settings, partial(serve_until, settings))


if __name__ == "__main__":
    sys.exit(main())
