"""The whole service: recovery after an outage, metrics, purging and shutdown."""

import signal
from datetime import timedelta

import httpx
import pytest
from pydantic import ValidationError

from notification_fanout.store import SQL
from tablebell.testing import Servers, eventually, free_port, plan

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


OLD_RESERVATION = """
INSERT INTO reservation (customer_id, restaurant_id, party_size, slot_time)
VALUES (5, 10, 2, now() - interval '179 days'), (5, 10, 2, now() + interval '300 days')
RETURNING id
"""
OLD_NOTIFICATIONS = """
WITH event AS (
    INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version,
                                    created_at)
    SELECT gen_random_uuid(), 'RESERVATION_REQUESTED', 'RESTAURANT', reservation_id, 10, 1, now() - interval '181 days'
      FROM unnest($1::bigint[]) AS reservation_id
    RETURNING id
)
INSERT INTO notification (event_notification_id, user_id, user_type, title, body, created_at)
SELECT id, staff, 'RESTAURANT_USER', '', '', now() - interval '181 days'
  FROM event CROSS JOIN unnest(ARRAY[50, 51]) AS staff
"""


async def test_rows_past_their_retention_are_purged(harness: Harness) -> None:
    async with harness.replica():
        await harness.publish(*(requested(number) for number in range(1, 4)))
        await eventually(lambda: harness.processed(3))
    await harness.pool.execute("UPDATE processed_event SET processed_at = now() - interval '8 days'")
    await harness.pool.execute("UPDATE notification_outbox SET published_at = now() - interval '8 days'")
    past, future = (row["id"] for row in await harness.pool.fetch(OLD_RESERVATION))
    await harness.pool.execute(OLD_NOTIFICATIONS, [past, future])
    await harness.publish(requested(4))
    async with harness.replica(purge_seconds=0.5):
        await eventually(lambda: harness.count("notification_outbox", "published_at > now() - interval '1 day'"))
        await eventually(lambda: _only_new_rows_are_left(harness))
    kept = await harness.pool.fetchval("SELECT reservation_id FROM event_notification ORDER BY created_at LIMIT 1")
    assert kept == future, "a request for a future time stays in the inbox"
    assert await harness.count("notification", "created_at < now() - interval '1 day'") == 2
    horizon = await harness.pool.fetch("SELECT retention FROM purge_horizon ORDER BY 1")
    assert [row["retention"] for row in horizon] == ["event_notification", "notification_outbox", "processed_event"]


async def _only_new_rows_are_left(harness: Harness) -> bool:
    return (
        await harness.count("processed_event") == 4
        and await harness.count("notification_outbox") == 7
        and await harness.count("event_notification", "created_at < now() - interval '1 day'") == 1
    )


async def test_the_purge_of_notifications_reads_only_old_ones(harness: Harness) -> None:
    await harness.pool.execute(
        "INSERT INTO event_notification"
        " (event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version)"
        " SELECT gen_random_uuid(), 'RESERVATION_REQUESTED', 'CUSTOMER', n, 10, 1 FROM generate_series(1, 20000) AS n"
    )
    await harness.pool.execute(OLD_NOTIFICATIONS, [1, 2, 3])
    await harness.pool.execute("VACUUM ANALYZE event_notification, notification")
    nodes = await plan(harness.pool, SQL["purge_event_notifications"], timedelta(days=180), 1_000)
    assert "event_notification_age" in {node.get("Index Name") for node in nodes}
    table = [node for node in nodes if node.get("Relation Name") == "event_notification"]
    scans = [node for node in table if "Scan" in node["Node Type"]]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 10
    assert "Seq Scan" not in {node["Node Type"] for node in scans}


def test_the_inbox_must_be_kept_for_longer_than_the_rows_that_refer_to_it(harness: Harness) -> None:
    with pytest.raises(ValidationError, match="INBOX_RETENTION_DAYS should not be less"):
        harness.settings(dead_retention_days=200)
