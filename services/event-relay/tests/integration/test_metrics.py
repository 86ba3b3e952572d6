"""The metrics of a running relay."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from event_relay.settings import Settings
from tablebell.postgres import Pool
from tablebell.testing import Database, eventually

from .running import running_relay
from .source import Source, event
from .stream import Stream


async def scrape(settings: Settings) -> dict[tuple[str, str], float]:
    """Values by name and label. The label `level` is left out; each metric has at most one other with a value."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"http://127.0.0.1:{settings.port}/metrics")
    return {
        (sample.name, "".join(value for name, value in sample.labels.items() if name != "level")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


async def is_ready(settings: Settings) -> bool:
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(f"http://127.0.0.1:{settings.port}/health/ready")).status_code == 200
        except httpx.TransportError:
            return False


async def test_the_metrics_show_rows_lag_rate_latency_failures_and_partitions(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream
) -> None:
    async with running_relay(database, amqp_url) as settings:
        await eventually(lambda: is_ready(settings))
        before = await scrape(settings)
        await source.commit(event(1, 1), event(2, 1), event(3, 1, event_type="KITCHEN_ON_FIRE"), event(3, 2))
        await eventually(lambda: has_settled(source))
        after = await scrape(settings)

    def gained(name: str, label: str = "") -> float:
        return after[name, label] - before.get((name, label), 0)

    assert gained("relay_published_total") == 2
    assert gained("relay_failures_total", "refused") == 1
    assert gained("relay_confirm_seconds_count") == 3
    assert gained("relay_publish_seconds_count") == 2
    assert after["relay_partitions_owned", ""] == 16
    assert after["outbox_rows", "FAILED"] == 1
    assert after["outbox_rows", "PENDING"] == 1
    assert after["outbox_rows", "DEAD"] == 0
    assert 0 < after["outbox_lag_seconds", ""] < 20
    assert before["outbox_lag_seconds", ""] == 0


POSTPONE = """
UPDATE event_outbox
   SET status = 'FAILED', available_at = now() + interval '1 minute', first_due_at = now() - interval '1 hour'
 WHERE id = $1
"""


async def test_an_event_with_many_retries_is_overdue_and_a_planned_one_is_not(
    database: Database, amqp_url: SecretStr, source: Source, stream: Stream, pool: Pool
) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    planned, sent = await source.commit(event(1, 2, schedule_key="reminder-2h", available_at=tomorrow), event(2, 1))
    await pool.execute("UPDATE event_outbox SET created_at = now() - interval '9 days' WHERE id = $1", planned)
    async with running_relay(database, amqp_url, poll_seconds=600.0) as settings:
        await eventually(lambda: is_ready(settings))
        await eventually(lambda: stream.arrivals == [(2, 1)])
        await eventually(lambda: is_published(source, sent))
        (postponed,) = await source.commit(event(3, 1, available_at=tomorrow))
        before = await scrape(settings)
        await pool.execute(POSTPONE, postponed)
        after = await scrape(settings)
    assert before["outbox_overdue_seconds", ""] == 0
    assert after["outbox_overdue_seconds", ""] == pytest.approx(3600, abs=30)
    assert after["outbox_lag_seconds", ""] == 0


async def has_settled(source: Source) -> bool:
    return await source.statuses() == {"PUBLISHED": 2, "FAILED": 1, "PENDING": 1}


async def is_published(source: Source, row_id: int) -> bool:
    return bool((await source.row(row_id))["status"] == "PUBLISHED")
