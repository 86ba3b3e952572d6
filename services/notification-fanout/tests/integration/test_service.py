"""The whole service: recovery after an outage, metrics, purging and shutdown."""

import signal
from datetime import timedelta

import httpx
import pytest

from notification_fanout.purge import Purge
from tablebell.postgres import open_pool
from tablebell.testing import Servers, eventually, free_port

from .harness import Harness, requested


async def test_metrics_count_the_work_of_each_listener(harness: Harness) -> None:
    port = free_port()
    once = requested(1)
    async with harness.replica(port=port), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        await eventually(lambda: _is_ready(http))
        before = await _metrics(http)
        await harness.publish(once, once, requested(2, restaurant_id=999))
        await eventually(lambda: harness.processed(1))

        async def grown() -> bool:
            now = await _metrics(http)
            label = '{listener="RESTAURANT_LISTENER"}'
            return {
                name: now[f"fanout_{name}{label}"] - before.get(f"fanout_{name}{label}", 0.0)
                for name in ("consumed_total", "created_total", "duplicates_total", "dead_total", "batch_size_sum")
            } == {"consumed_total": 3, "created_total": 3, "duplicates_total": 1, "dead_total": 1, "batch_size_sum": 3}

        await eventually(grown)
        names = set(await _metrics(http))
    assert 'fanout_out_of_order_total{listener="RESTAURANT_LISTENER"}' in names
    assert 'fanout_event_latency_seconds_count{listener="CUSTOMER_LISTENER"}' in names
    assert 'outbox_rows{level="notification_outbox",status="DEAD"}' in names


async def _is_ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/health/ready")).status_code == 200
    except httpx.TransportError:
        return False


async def _metrics(http: httpx.AsyncClient) -> dict[str, float]:
    lines = (await http.get("/metrics")).text.splitlines()
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


@pytest.mark.timeout(90)
async def test_processing_continues_after_a_restart_of_rabbitmq(harness: Harness, servers: Servers) -> None:
    async with harness.replica():
        await harness.publish(requested(1))
        await eventually(lambda: harness.processed(1))
        await servers.rabbitmq("restart")
        await eventually(lambda: harness.broker.connected, within=30)
        await harness.publish(requested(2))
        await eventually(lambda: harness.processed(2), within=30)
    assert await harness.count("notification") == 14


async def test_sigterm_stops_the_service_and_leaves_no_open_lease(harness: Harness) -> None:
    async with harness.process() as process:
        await harness.publish(*(requested(number) for number in range(1, 40)))
        await eventually(lambda: harness.count("processed_event"), within=15)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert await harness.count("notification_outbox", "status = 'PROCESSING'") == 0
    async with harness.replica():
        await eventually(lambda: harness.processed(39))
    assert await harness.count("notification") == 39 * 7


async def test_rows_past_their_retention_are_purged(harness: Harness) -> None:
    async with harness.replica():
        await harness.publish(*(requested(number) for number in range(1, 4)))
        await eventually(lambda: harness.processed(3))
    await harness.pool.execute("UPDATE processed_event SET processed_at = now() - interval '8 days'")
    await harness.pool.execute("UPDATE notification_outbox SET published_at = now() - interval '8 days'")
    await harness.publish(requested(4))
    async with harness.replica(purge_poll_seconds=0.5):
        await eventually(lambda: harness.count("notification_outbox", "published_at > now() - interval '1 day'"))
        await eventually(lambda: _only_new_rows_are_left(harness))


async def _only_new_rows_are_left(harness: Harness) -> bool:
    return await harness.count("processed_event") == 4 and await harness.count("notification_outbox") == 7


async def test_one_replica_purges_at_a_time_and_in_bounded_steps(harness: Harness) -> None:
    await harness.pool.execute(
        "INSERT INTO processed_event SELECT gen_random_uuid(), 'ADMIN_LISTENER', now() - interval '8 days'"
        " FROM generate_series(1, 25)"
    )
    async with open_pool(harness.database.url_of("notification_fanout"), "test", size=2) as pool:
        purge = Purge(pool, retention=timedelta(days=7), limit=10)
        async with harness.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('notification-fanout purge'))")
            assert not await purge.run_once()
            assert await harness.count("processed_event") == 25
        assert [await purge.run_once() for _ in range(3)] == [True, True, False]
    assert await harness.count("processed_event") == 0
