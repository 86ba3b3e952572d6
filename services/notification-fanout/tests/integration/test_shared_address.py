"""A message to an address that several people share, a Slack webhook, is sent once."""

import asyncio

import asyncpg

from tablebell.people import Audience
from tablebell.testing import eventually

from .harness import Harness, requested
from .test_expander import expander, listen

CARRIED = (None, None)


async def slack(harness: Harness) -> dict[int, tuple[str | None, str | None]]:
    """Outcome and reason by admin."""
    rows = await harness.pool.fetch(
        "SELECT user_id, outcome, last_error FROM notification_channel_send WHERE channel_type = 'SLACK'"
    )
    return {row["user_id"]: (row["outcome"], row["last_error"]) for row in rows}


async def notification_of(harness: Harness, admin: int) -> int:
    return int(await harness.pool.fetchval("SELECT id FROM notification_admin WHERE user_id = $1", admin))


async def see(harness: Harness, admin: int) -> tuple[str, str]:
    reason = f"sent once for all who share the address, see notification {await notification_of(harness, admin)}"
    return "SKIPPED", reason


async def delay(harness: Harness, admin: int) -> None:
    await harness.pool.execute(
        "UPDATE notification_outbox SET available_at = now() + interval '1 hour' WHERE notification_id = $1",
        await notification_of(harness, admin),
    )


async def test_the_first_admin_carries_the_message_and_the_others_have_a_reason(harness: Harness) -> None:
    await listen(harness, requested(1), requested(2), audience=Audience.ADMIN)
    async with expander(harness) as expanding:
        await expanding.run_once()
    rows = await harness.pool.fetch(
        "SELECT reservation_id, outcome FROM notification_channel_send WHERE channel_type = 'SLACK' ORDER BY 1, 2"
    )
    assert [tuple(row) for row in rows] == [(1, "SKIPPED"), (1, None), (2, "SKIPPED"), (2, None)]
    assert await harness.count("notification_channel_send", "channel_type = 'EMAIL' AND is_sent IS NULL") == 4


async def test_an_admin_who_switched_slack_off_does_not_keep_the_others_from_their_message(harness: Harness) -> None:
    await harness.pool.execute(
        "INSERT INTO notification_preference (user_type, user_id, channels) VALUES ('ADMIN_USER', 1, $1)",
        {"SLACK": False},
    )
    await listen(harness, requested(1), audience=Audience.ADMIN)
    async with expander(harness) as expanding:
        await expanding.run_once()
    found = await slack(harness)
    assert "switched off" in str(found[1])
    assert found[2] == CARRIED


async def test_a_later_batch_finds_the_message_of_an_earlier_one(harness: Harness) -> None:
    await listen(harness, requested(1), audience=Audience.ADMIN)
    await delay(harness, 1)
    async with expander(harness) as expanding:
        await expanding.run_once()
        assert await slack(harness) == {2: CARRIED}
        await harness.pool.execute("UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT'")
        await harness.pool.execute("UPDATE notification_outbox SET available_at = now()")
        await expanding.run_once()
    assert await slack(harness) == {1: await see(harness, 2), 2: ("SENT", None)}


async def test_two_expanders_at_once_write_one_message(harness: Harness) -> None:
    await listen(harness, requested(1), audience=Audience.ADMIN)
    await delay(harness, 1)
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(harness.database.url.get_secret_value())
    async with expander(harness) as expanding:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(
            "INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id,"
            " recipient, shared_event_id)"
            " SELECT $1, 'SLACK', 'ADMIN_USER', 1, 10, '#ops', event_id FROM event_notification",
            await notification_of(harness, 1),
        )
        running = asyncio.create_task(expanding.run_once())
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        await eventually(lambda: is_waiting(harness, waiting))
        await transaction.commit()
        await running
    await connection.close()
    assert await slack(harness) == {1: CARRIED, 2: await see(harness, 1)}
    assert await harness.is_expanded() is False, "the delayed row of admin 1 is still open"


async def is_waiting(harness: Harness, query: str) -> bool:
    return bool(await harness.pool.fetchval(query))
