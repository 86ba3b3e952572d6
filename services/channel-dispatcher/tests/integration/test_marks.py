"""The marks of undeliverable addresses: when they are set, when they end, and their limit."""

from datetime import timedelta

from structlog.testing import capture_logs

from channel_dispatcher import store
from channel_dispatcher.attempt_record import AttemptRecord
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.metrics import MARKS
from tablebell.people import Channel
from tablebell.purging import Purge, Retention
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness

EMAIL, SMS = Channel.EMAIL, Channel.SMS
LEASE = timedelta(seconds=30)


async def claim(harness: Harness, channel: Channel) -> list[Delivery]:
    claimed = await store.claim_fair(harness.service, channel, limit=500, lease=LEASE, after=0, max_attempts=5)
    return list(claimed.deliveries)


async def marked(harness: Harness) -> list[tuple[int, str]]:
    query = "SELECT user_id, channel_type FROM undeliverable_address WHERE silences ORDER BY 1, 2"
    return [(row["user_id"], row["channel_type"]) for row in await harness.pool.fetch(query)]


def dead(delivery: Delivery, reason: str = "550 5.1.1 no such user") -> AttemptRecord:
    return AttemptRecord(delivery, "UNDELIVERABLE", reason, address_is_dead=True)


async def test_one_batch_marks_every_channel_of_a_person(harness: Harness) -> None:
    await harness.add(EMAIL, user_id=5)
    await harness.add(SMS, user_id=5)
    (mail,), (text,) = await claim(harness, EMAIL), await claim(harness, SMS)
    await store.record_if_leased(harness.service, [dead(mail), dead(text)])
    assert await marked(harness) == [(5, "EMAIL"), (5, "SMS")]


async def test_a_success_deletes_the_mark_of_its_own_channel_only(harness: Harness) -> None:
    await harness.add(EMAIL, user_id=5)
    await harness.add(SMS, user_id=5)
    (mail,), (text,) = await claim(harness, EMAIL), await claim(harness, SMS)
    await harness.pool.execute(
        "INSERT INTO undeliverable_address (user_type, user_id, channel_type, address, reason)"
        " VALUES ('CUSTOMER', 5, 'EMAIL', $1, 'once')",
        mail.recipient,
    )
    await store.record_if_leased(harness.service, [AttemptRecord(mail, "SENT"), dead(text)])
    assert await marked(harness) == [(5, "SMS")]


async def test_a_mark_expires(harness: Harness) -> None:
    await harness.pool.execute(
        "INSERT INTO undeliverable_address (user_type, user_id, channel_type, address, reason, marked_at)"
        " VALUES ('CUSTOMER', 5, 'SMS', '+39333', 'old', now() - interval '91 days'),"
        "        ('CUSTOMER', 6, 'SMS', '+39334', 'recent', now() - interval '89 days')"
    )
    retention = Retention("marks", timedelta(days=90), store.purge_marks, is_history=False)
    await Purge(harness.service, [retention]).run_once()
    assert await marked(harness) == [(6, "SMS")]


async def test_a_mark_is_deleted_when_the_address_changes_and_does_not_return_with_it(harness: Harness) -> None:
    marks = [("CUSTOMER", 5, "EMAIL"), ("CUSTOMER", 5, "SMS"), ("RESTAURANT_USER", 50, "PUSH"), ("CUSTOMER", 6, "SMS")]
    await harness.pool.executemany(
        "INSERT INTO undeliverable_address (user_type, user_id, channel_type, address, reason)"
        " VALUES ($1, $2, $3, 'x', 'dead')",
        marks,
    )
    before = await harness.pool.fetchrow("SELECT email, phone FROM customer WHERE id = 5")
    assert before is not None
    await harness.pool.execute("UPDATE customer SET email = 'new@mail.example' WHERE id = 5")
    await harness.pool.execute(
        "UPDATE customer SET email = $1, phone = $2, name = 'Anna' WHERE id = 5", *before.values()
    )
    await harness.pool.execute("UPDATE restaurant_users SET fcm_token = NULL WHERE id = 50")
    assert await marked(harness) == [(5, "SMS"), (6, "SMS")]


async def test_marks_beyond_the_limit_have_no_effect(harness: Harness) -> None:
    await harness.pool.execute(
        "INSERT INTO customer (id, name, phone) SELECT 1000 + n, 'Guest', '+39' || n FROM generate_series(1, 240) AS n"
    )
    allowed = 4  # 2 % of the telephone numbers: the 240 and those of the demo
    assert await harness.service.fetchval("SELECT count_addresses('SMS')") // 50 == allowed
    ids = await harness.add(SMS, 20)
    recorder = harness.recorder(mark_least=1)
    withheld = MARKS.labels(SMS, "withheld")._value.get()
    with capture_logs() as logs:
        for delivery in await claim(harness, SMS):
            recorder.add(SMS, dead(delivery))
        recorder.finish()
        await recorder.run()
    assert {(await harness.row(row_id))["outcome"] for row_id in ids} == {"UNDELIVERABLE"}
    assert len(await marked(harness)) == allowed
    assert await harness.pool.fetchval("SELECT count(*) FROM undeliverable_address") == 20, (
        "the rest is kept as evidence"
    )
    assert MARKS.labels(SMS, "withheld")._value.get() - withheld == 20 - allowed
    assert "address_marks_withheld" in {line["event"] for line in logs}

    # A person with a withheld mark gets the next message, a marked one does not.
    people = [
        row["user_id"] for row in await harness.pool.fetch("SELECT user_id FROM undeliverable_address ORDER BY id")
    ]
    again = [
        (await harness.add(SMS, user_id=person, notification_id=900 + person, recipient=f"+3933300{person:05}"))[0]
        for person in (people[0], people[-1])
    ]
    await harness.pool.execute("UPDATE undeliverable_address SET marked_at = now()")
    async with harness.dispatching(SMS):
        rows = await harness.finished(*again)
    assert [row["outcome"] for row in rows] == ["SKIPPED", "SENT"]
    assert harness.sandbox.count(SandboxChannel.SMS).accepted == 1


async def test_the_limit_holds_as_long_as_the_cause_lasts(harness: Harness) -> None:
    """Withheld marks count, too: otherwise all people would be marked, a few in each window."""
    await harness.add(SMS, 12)
    for delivery in await claim(harness, SMS):
        recorder = harness.recorder(mark_least=2)
        recorder.add(SMS, dead(delivery))
        recorder.finish()
        await recorder.run()
    assert len(await marked(harness)) == 2
    await harness.pool.execute(
        "UPDATE undeliverable_address SET marked_at = now() - interval '11 minutes' WHERE silences"
    )
    await harness.add(SMS)
    (delivery,) = await claim(harness, SMS)
    recorder = harness.recorder(mark_least=2)
    recorder.add(SMS, dead(delivery))
    recorder.finish()
    await recorder.run()
    assert len(await marked(harness)) == 2


async def test_one_dead_address_of_a_small_installation_is_marked(harness: Harness) -> None:
    await harness.add(SMS)
    (delivery,) = await claim(harness, SMS)
    recorder = harness.recorder(mark_least=5)
    recorder.add(SMS, dead(delivery))
    recorder.finish()
    await recorder.run()
    assert len(await marked(harness)) == 1
