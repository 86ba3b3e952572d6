"""The cost of an event does not grow with the history, even with plans made when the tables were short."""

from tablebell.events import EventType
from tablebell.testing import eventually

from .harness import Harness, data, message, requested

EVENTS = 20
RECIPIENTS = 7
LENGTH = 20_000
HISTORY = f"""
WITH event AS (
    INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version)
    SELECT gen_random_uuid(), 'RESERVATION_REQUESTED', 'RESTAURANT', 1000000 + number, 10, 1
      FROM generate_series(1, {LENGTH}) AS number
    RETURNING id, event_id
), processed AS (
    INSERT INTO processed_event (event_id, listener) SELECT event_id, 'RESTAURANT_LISTENER' FROM event
), created AS (
    INSERT INTO notification (event_notification_id, user_id, user_type, title, body)
    SELECT id, 50, 'RESTAURANT_USER', '', '' FROM event
    RETURNING id
), outbox AS (
    INSERT INTO notification_outbox (notification_id, notification_type, status, published_at)
    SELECT id, 'RESTAURANT', 'PUBLISHED', now() FROM created
)
INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id, is_sent,
                                       outcome)
SELECT id, 'EMAIL', 'RESTAURANT_USER', 50, 10, true, 'SENT' FROM created
"""
READ = """
SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
  FROM pg_stat_user_tables
 WHERE relname ~ '^(event_notification|notification_|processed_event)'
"""


async def test_no_statement_reads_the_history(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        await harness.publish(requested(1))
        await eventually(lambda: len(frames) == RECIPIENTS)
        await harness.pool.execute(HISTORY)
        before = await harness.pool.fetchval(READ)
        await harness.publish(*(requested(number) for number in range(2, EVENTS + 2)))
        await eventually(
            lambda: len(frames) == RECIPIENTS * (EVENTS + 1)
        )  # wait for frames: a query would count as reads
    # The connections are closed now, so their statistics are complete.
    assert await harness.pool.fetchval(READ) - before < LENGTH, "a statement scanned the history"


async def test_withdrawing_earlier_versions_does_not_read_the_history(harness: Harness) -> None:
    async with harness.live_updates() as frames, harness.replica():
        for number in range(1, EVENTS + 1):
            await harness.publish(requested(number))
        await eventually(lambda: len(frames) == RECIPIENTS * EVENTS)
        await harness.pool.execute(HISTORY)
        before = await harness.pool.fetchval(READ)
        cancelled = [
            message(EventType.RESERVATION_CANCELLED, data(number, status="CANCELLED"), version=2)
            for number in range(1, EVENTS + 1)
        ]
        await harness.publish(*cancelled)
        await eventually(lambda: len(frames) >= 2 * RECIPIENTS * EVENTS)
    assert await harness.pool.fetchval(READ) - before < LENGTH, "a statement scanned the history"
    assert await harness.count("notification_channel_send", "withdrawn_because LIKE 'superseded%'") > 0
