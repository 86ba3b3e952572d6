"""A row that the database rejects, in a claim or a record, is buried with the reason; other rows are not affected."""

import asyncio

import pytest

from tablebell.people import Channel
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness


async def refuse(harness: Harness, row_id: int, condition: str) -> None:
    await harness.pool.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$"
    )
    await harness.pool.execute(
        f"""CREATE TRIGGER refuse BEFORE UPDATE ON notification_channel_send FOR EACH ROW
            WHEN (NEW.id = {row_id} AND {condition}) EXECUTE FUNCTION refuse()"""
    )


async def test_a_result_that_cannot_be_recorded_buries_its_row_and_the_rest_is_recorded(harness: Harness) -> None:
    good, bad, also_good = await harness.add(Channel.SMS, 3)
    await refuse(harness, bad, "NEW.is_sent")
    async with harness.dispatching(Channel.SMS):
        rows = {row["id"]: row for row in await harness.finished(good, bad, also_good)}
        (later,) = await harness.add(Channel.SMS)
        await harness.finished(later)
    assert [rows[row_id]["outcome"] for row_id in (good, also_good)] == ["SENT", "SENT"]
    assert rows[bad]["outcome"] == "UNDELIVERABLE"
    assert rows[bad]["last_error"] == "could not be recorded as SENT: RaiseError: refused"


async def test_a_row_that_cannot_be_claimed_is_buried_and_the_rest_is_sent(harness: Harness) -> None:
    good, bad, also_good = await harness.add(Channel.SMS, 3)
    await refuse(harness, bad, "NEW.lease_token IS NOT NULL")
    async with harness.dispatching(Channel.SMS):
        rows = {row["id"]: row for row in await harness.finished(good, bad, also_good)}
        (later,) = await harness.add(Channel.SMS)
        await harness.finished(later)
    assert [rows[row_id]["outcome"] for row_id in (good, also_good)] == ["SENT", "SENT"]
    assert rows[bad]["outcome"] == "UNDELIVERABLE"
    assert rows[bad]["last_error"] == "the row could not be claimed: RaiseError: refused"
    assert not await harness.attempts(bad)


async def test_a_failing_claim_without_a_bad_row_is_an_outage(harness: Harness) -> None:
    ids = await harness.add(Channel.SMS, 2)
    await harness.pool.execute("REVOKE INSERT ON channel_send_attempt FROM tablebell_channel_dispatcher")
    async with harness.dispatching(Channel.SMS):
        await asyncio.sleep(0.5)
        assert [(await harness.row(row_id))["is_sent"] for row_id in ids] == [None, None]
        await harness.pool.execute("GRANT INSERT ON channel_send_attempt TO tablebell_channel_dispatcher")
        rows = await harness.finished(*ids)
    assert [row["outcome"] for row in rows] == ["SENT"] * 2


@pytest.mark.parametrize("rows", [1, 2])
async def test_a_row_that_cannot_be_buried_keeps_its_lease(harness: Harness, rows: int) -> None:
    bad, *good = await harness.add(Channel.SMS, rows)
    await refuse(harness, bad, "NEW.is_sent IS NOT NULL")
    async with harness.dispatching(Channel.SMS):
        await harness.finished(*good)
        await eventually(lambda: has_been_tried(harness, bad))
        (later,) = await harness.add(Channel.SMS)
        await harness.finished(later)
    row = await harness.row(bad)
    assert (row["is_sent"], row["lease_token"] is not None) == (None, True)


async def test_a_missing_permission_buries_no_row_and_the_result_waits(harness: Harness) -> None:
    """A missing permission affects every row: it is an outage."""
    ids = await harness.add(Channel.SMS, 3)
    await harness.pool.execute("REVOKE UPDATE ON channel_send_attempt FROM tablebell_channel_dispatcher")
    async with harness.dispatching(Channel.SMS):
        await eventually(lambda: all_are_sent(harness))
        await asyncio.sleep(0.5)
        assert [(await harness.row(row_id))["is_sent"] for row_id in ids] == [None, None, None]
        await harness.pool.execute("GRANT UPDATE ON channel_send_attempt TO tablebell_channel_dispatcher")
        rows = await harness.finished(*ids)
    assert [row["outcome"] for row in rows] == ["SENT"] * 3
    assert harness.sandbox.count(SandboxChannel.SMS).accepted == 3


def all_are_sent(harness: Harness) -> bool:
    return harness.sandbox.count(SandboxChannel.SMS).accepted == 3


async def has_been_tried(harness: Harness, row_id: int) -> bool:
    return bool(await harness.attempts(row_id))
