"""Inactive people are not notified, also if they are deactivated while a notification is on its way."""

import asyncio

from tablebell.people import Audience
from tablebell.testing import eventually

from .harness import Harness, frames_of, requested
from .test_expander import expander, listen

# What reservation-api does first when it deactivates a person.
LOCK = "SELECT pg_advisory_xact_lock(45, 0)"


async def test_inactive_people_get_no_notification(harness: Harness) -> None:
    await harness.pool.execute("UPDATE restaurant_users SET active = false WHERE id = 51")
    for table in ("customer", "admin_users", "agency_users"):
        await harness.pool.execute(f"UPDATE {table} SET active = false")
    for audience in Audience:
        await listen(harness, requested(1), audience=audience)
    rows = await harness.pool.fetch("SELECT user_type, user_id FROM notification ORDER BY user_id")
    assert [tuple(row) for row in rows] == [("RESTAURANT_USER", 50), ("RESTAURANT_USER", 52)]
    assert await harness.count("event_notification") == 1


async def test_a_person_deactivated_before_the_expansion_gets_neither_messages_nor_frames(harness: Harness) -> None:
    await listen(harness, requested(1))
    await harness.pool.execute("UPDATE restaurant_users SET active = false WHERE id = 51")
    async with harness.live_updates() as frames, expander(harness) as expanding:
        await expanding.run_once()
        await eventually(lambda: len(frames) == 2)
    assert [to for to, _ in frames_of(frames, "notification")] == [("RESTAURANT_USER:50",), ("RESTAURANT_USER:52",)]
    rows = await harness.pool.fetch(
        "SELECT DISTINCT user_id, outcome, last_error FROM notification_channel_send ORDER BY user_id"
    )
    assert [tuple(row) for row in rows] == [
        (50, None, None),
        (51, "WITHDRAWN", "the recipient is not active any more"),
        (52, None, None),
    ]


async def test_an_expansion_waits_for_a_deactivation_in_progress_and_sees_it(harness: Harness) -> None:
    await listen(harness, requested(1))
    async with harness.pool.acquire() as connection, expander(harness) as expanding:
        async with connection.transaction():
            await connection.execute(LOCK)
            expansion = asyncio.create_task(expanding.run_once())
            await eventually(
                lambda: harness.count("pg_locks", "locktype = 'advisory' AND classid = 45 AND NOT granted")
            )
            await connection.execute("UPDATE restaurant_users SET active = false WHERE id = 51")
        await expansion
    assert await harness.count("notification_channel_send", "user_id = 51 AND outcome = 'WITHDRAWN'") == 3
    assert await harness.count("notification_channel_send", "is_sent IS NULL") == 6


async def test_a_deactivation_waits_for_an_expansion_in_progress(harness: Harness) -> None:
    await listen(harness, requested(1))
    async with (
        harness.pool.acquire() as blocker,
        harness.pool.acquire() as deactivation,
        expander(harness) as expanding,
    ):
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE notification_channel_send IN SHARE MODE")  # holds up the insert of L2
            expansion = asyncio.create_task(expanding.run_once())
            await eventually(lambda: harness.count("pg_locks", "locktype = 'advisory' AND classid = 45 AND granted"))
            waiting = asyncio.create_task(deactivation.execute(LOCK))
            await eventually(
                lambda: harness.count("pg_locks", "locktype = 'advisory' AND classid = 45 AND NOT granted")
            )
        await expansion
        await waiting
    assert await harness.count("notification_channel_send", "user_id = 51 AND is_sent IS NULL") == 3
