"""What an event costs does not grow with what was told before, even for plans that were made when that was little."""

from tablebell.testing import eventually

from .harness import Stage, requested

EVENTS = 20
PEOPLE = 7
LENGTH = 20_000
HISTORY = f"""
WITH event AS (
    INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version)
    SELECT gen_random_uuid(), 'RESERVATION_REQUESTED', 'RESTAURANT', 1000000 + number, 10, 1
      FROM generate_series(1, {LENGTH}) AS number
    RETURNING id, event_id
), processed AS (
    INSERT INTO processed_event (event_id, listener) SELECT event_id, 'RESTAURANT_LISTENER' FROM event
), told AS (
    INSERT INTO notification (event_notification_id, user_id, user_type, title, body)
    SELECT id, 50, 'RESTAURANT_USER', '', '' FROM event
    RETURNING id
), outbox AS (
    INSERT INTO notification_outbox (notification_id, notification_type, status, published_at)
    SELECT id, 'RESTAURANT', 'PUBLISHED', now() FROM told
)
INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id, is_sent,
                                       outcome)
SELECT id, 'EMAIL', 'RESTAURANT_USER', 50, 10, true, 'SENT' FROM told
"""
READ = """
SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
  FROM pg_stat_user_tables
 WHERE relname ~ '^(event_notification|notification_|processed_event)'
"""


async def test_no_statement_reads_the_history(stage: Stage) -> None:
    async with stage.live_updates() as frames, stage.replica():
        await stage.tell(requested(1))
        await eventually(lambda: len(frames) == PEOPLE)
        await stage.pool.execute(HISTORY)
        before = await stage.pool.fetchval(READ)
        await stage.tell(*(requested(number) for number in range(2, EVENTS + 2)))
        await eventually(lambda: len(frames) == PEOPLE * (EVENTS + 1))  # seen on the screens, since looking is reading
    # Its connections are closed now, and what they read is counted.
    assert await stage.pool.fetchval(READ) - before < LENGTH, "less than one look through it"
