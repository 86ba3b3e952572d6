"""The service as a whole: it comes back after an outage, tells how it is, cleans up and stops when asked."""

import signal
from datetime import timedelta

import httpx
import pytest

from notification_fanout.purge import Purge
from tablebell.postgres import open_pool
from tablebell.testing import Servers, eventually, free_port

from .harness import Stage, requested


async def test_metrics_tell_what_each_listener_did(stage: Stage) -> None:
    port = free_port()
    once = requested(1)
    async with stage.replica(port=port), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        await eventually(lambda: _is_ready(http))
        before = await _metrics(http)
        await stage.tell(once, once, requested(2, restaurant_id=999))
        await eventually(lambda: stage.processed(1))

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
    assert 'fanout_outbox_rows{status="DEAD"}' in names


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
async def test_after_rabbitmq_restarted_everything_goes_on(stage: Stage, servers: Servers) -> None:
    async with stage.replica():
        await stage.tell(requested(1))
        await eventually(lambda: stage.processed(1))
        await servers.rabbitmq("restart")
        await eventually(lambda: stage.broker.connected, within=30)
        await stage.tell(requested(2))
        await eventually(lambda: stage.processed(2), within=30)
    assert await stage.count("notification") == 14


async def test_it_stops_when_asked_and_leaves_nothing_half_done(stage: Stage) -> None:
    async with stage.process() as process:
        await stage.tell(*(requested(number) for number in range(1, 40)))
        await eventually(lambda: stage.count("processed_event"), within=15)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert await stage.count("notification_outbox", "status = 'PROCESSING'") == 0
    async with stage.replica():
        await eventually(lambda: stage.processed(39))
    assert await stage.count("notification") == 39 * 7


async def test_what_is_past_its_retention_is_purged_in_bounded_steps(stage: Stage) -> None:
    async with stage.replica():
        await stage.tell(*(requested(number) for number in range(1, 4)))
        await eventually(lambda: stage.processed(3))
    await stage.pool.execute("UPDATE processed_event SET processed_at = now() - interval '8 days'")
    await stage.pool.execute("UPDATE notification_outbox SET published_at = now() - interval '8 days'")
    await stage.tell(requested(4))
    async with stage.replica(purge_poll_seconds=0.5):
        await eventually(lambda: stage.count("notification_outbox", "published_at > now() - interval '1 day'"))
        await eventually(lambda: _only_the_new_is_left(stage))


async def _only_the_new_is_left(stage: Stage) -> bool:
    return await stage.count("processed_event") == 4 and await stage.count("notification_outbox") == 7


async def test_one_replica_purges_at_a_time(stage: Stage) -> None:
    await stage.pool.execute(
        "INSERT INTO processed_event SELECT gen_random_uuid(), 'ADMIN_LISTENER', now() - interval '8 days'"
        " FROM generate_series(1, 25)"
    )
    async with open_pool(stage.database.url_of("notification_fanout"), "test", size=2) as pool:
        purge = Purge(pool, retention=timedelta(days=7), limit=10)
        async with stage.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('notification-fanout purge'))")
            assert not await purge.run_once()
            assert await stage.count("processed_event") == 25
        assert [await purge.run_once() for _ in range(3)] == [True, True, False]
    assert await stage.count("processed_event") == 0
