"""Decisions of staff and changes by customers: versions, events and reminders."""

import asyncio
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import httpx

from tablebell.events import ReservationData
from tablebell.outbox import Failure, Level, OutboxQueue
from tablebell.postgres import Pool
from tablebell.testing import eventually

from .conftest import Person, ask, events, fan_out, slot

ROME = ZoneInfo("Europe/Rome")


async def reminders(pool: Pool, reservation: int, status: str = "PENDING") -> dict[str, datetime]:
    rows = await pool.fetch(
        "SELECT schedule_key, available_at FROM event_outbox"
        " WHERE aggregate_id = $1 AND schedule_key IS NOT NULL AND status = $2",
        reservation,
        status,
    )
    return {row["schedule_key"]: row["available_at"] for row in rows}


async def test_accepting_plans_the_reminders_in_the_restaurants_timezone(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = await ask(anna)
    assert await reminders(pool, reservation["id"]) == {}
    accepted = await giulia.post(f"/restaurant/reservation/{reservation['id']}/accept")
    assert (accepted.json()["status"], accepted.json()["version"]) == ("ACCEPTED", 2)
    at = datetime.fromisoformat(reservation["slotTime"])
    morning = datetime.combine(at.astimezone(ROME).date() + timedelta(days=1), datetime.min.time(), ROME)
    assert await reminders(pool, reservation["id"]) == {
        "reminder-24h": at - timedelta(hours=24),
        "reminder-2h": at - timedelta(hours=2),
        "visit-ended": morning.replace(hour=10),
    }
    rows = await pool.fetch("SELECT event_type, payload FROM event_outbox WHERE schedule_key IS NOT NULL ORDER BY id")
    planned = [(row["event_type"], ReservationData.model_validate(row["payload"]).reminder) for row in rows]
    assert planned == [
        ("RESERVATION_REMINDER_DUE", "24h"),
        ("RESERVATION_REMINDER_DUE", "2h"),
        ("RESERVATION_VISIT_ENDED", None),
    ]


async def test_a_reminder_in_the_past_is_not_planned(person: Person, pool: Pool) -> None:
    soon = (datetime.now(ROME) + timedelta(hours=1)).replace(second=0, microsecond=0).isoformat()
    reservation = await ask(person("CUSTOMER", 5), restaurantId=11, slotTime=soon)
    accepted = await person("RESTAURANT_USER", 60).post(f"/restaurant/reservation/{reservation['id']}/accept")
    assert accepted.status_code == 200
    assert set(await reminders(pool, reservation["id"])) == {"visit-ended"}


async def test_a_leased_reminder_is_withdrawn_and_planned_again(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    """The relay's later writes have no effect."""
    reservation = (await ask(anna))["id"]
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    await pool.execute("UPDATE event_outbox SET available_at = now() WHERE schedule_key = 'reminder-24h'")
    outbox = OutboxQueue(Level.EVENT)
    batch = await outbox.claim(pool, list(range(16)), limit=100, lease=timedelta(seconds=30))
    (locked,) = [row["id"] for row in batch.rows if row["event_type"] == "RESERVATION_REMINDER_DUE"]

    await anna.patch(f"/customer/reservation/{reservation}", json={"slotTime": slot(days=40, hour=21)})
    accepted = await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    assert accepted.status_code == 200, accepted.text
    assert len(await reminders(pool, reservation)) == 3
    row = await pool.fetchrow("SELECT status, lease_token, lease_until FROM event_outbox WHERE id = $1", locked)
    assert row is not None
    assert tuple(row) == ("DISCARDED", None, None)
    failure = Failure(locked, "the broker is down", timedelta(0))
    assert await outbox.release_if_leased(pool, [failure], batch.token) == []
    assert await outbox.fail_if_leased(pool, [failure], batch.token, max_attempts=5) == {}
    assert await outbox.complete_if_leased(pool, [locked], batch.token) == []


async def test_a_reminder_that_is_being_claimed_is_withdrawn_after_the_claim(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    await pool.execute("UPDATE event_outbox SET available_at = now() WHERE schedule_key = 'reminder-24h'")
    async with pool.acquire() as relay, relay.transaction():
        await OutboxQueue(Level.EVENT).claim(relay, list(range(16)), limit=100, lease=timedelta(seconds=30))
        cancelling = asyncio.create_task(anna.post(f"/customer/reservation/{reservation}/cancel"))
        await eventually(lambda: waits_for_a_lock(pool))
    assert (await cancelling).status_code == 200
    assert len(await reminders(pool, reservation, "DISCARDED")) == 3


async def test_a_concurrently_requeued_reminder_does_not_fail_the_acceptance(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    dead = await pool.fetchval(
        "UPDATE event_outbox SET status = 'DEAD' WHERE schedule_key = 'reminder-2h' RETURNING id"
    )
    await anna.patch(f"/customer/reservation/{reservation}", json={"partySize": 5})
    async with pool.acquire() as operator, operator.transaction():
        assert await OutboxQueue(Level.EVENT).requeue(operator, [dead]) == [dead]
        accepting = asyncio.create_task(giulia.post(f"/restaurant/reservation/{reservation}/accept"))
        await eventually(lambda: waits_for_a_lock(pool))
    assert (await accepting).status_code == 200
    assert len(await reminders(pool, reservation)) == 3
    assert await pool.fetchval("SELECT status FROM event_outbox WHERE id = $1", dead) == "DISCARDED"


async def waits_for_a_lock(pool: Pool) -> bool:
    return bool(
        await pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )


async def test_a_change_withdraws_the_reminders_and_a_new_acceptance_plans_them_for_the_new_time(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    changed = await anna.patch(f"/customer/reservation/{reservation}", json={"slotTime": slot(days=40, hour=21)})
    assert (changed.json()["status"], changed.json()["version"]) == ("NOT_ACCEPTED", 3)
    assert await reminders(pool, reservation) == {}
    assert len(await reminders(pool, reservation, "DISCARDED")) == 3
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    at = datetime.fromisoformat(changed.json()["slotTime"])
    assert (await reminders(pool, reservation))["reminder-2h"] == at - timedelta(hours=2)
    assert len(await reminders(pool, reservation)) == 3

    assert (await anna.post(f"/customer/reservation/{reservation}/cancel")).json()["status"] == "CANCELLED"
    assert await reminders(pool, reservation) == {}
    event_types = [event["event_type"] for event in await events(pool, reservation)]
    assert event_types == [
        "RESERVATION_REQUESTED",
        "RESERVATION_ACCEPTED",
        "RESERVATION_CHANGED",
        "RESERVATION_ACCEPTED",
        "RESERVATION_CANCELLED",
    ]


async def test_the_event_of_a_change_has_the_previous_values(anna: httpx.AsyncClient, pool: Pool) -> None:
    before = await ask(anna, note="window")
    after = await anna.patch(
        f"/customer/reservation/{before['id']}", json={"slotTime": slot(hour=21), "partySize": 5, "note": None}
    )
    assert after.status_code == 200
    assert (after.json()["partySize"], after.json()["note"]) == (5, None)
    data = ReservationData.model_validate((await events(pool, before["id"]))[1]["payload"])
    assert data.previous_slot_time == datetime.fromisoformat(before["slotTime"])
    assert (data.previous_party_size, data.party_size, data.note) == (4, 5, None)


async def test_a_change_without_effect_appends_no_event(anna: httpx.AsyncClient, pool: Pool) -> None:
    reservation = await ask(anna)
    same = await anna.patch(f"/customer/reservation/{reservation['id']}", json={"partySize": 4, "slotTime": slot()})
    assert same.json() == reservation
    assert len(await events(pool, reservation["id"])) == 1


async def test_a_change_is_validated_like_a_new_reservation(anna: httpx.AsyncClient, pool: Pool) -> None:
    reservation = (await ask(anna))["id"]
    await ask(anna, slotTime=slot(hour=21))
    path = f"/customer/reservation/{reservation}"
    for body, status in (
        ({"partySize": 21}, 422),
        ({"slotTime": slot(hour=16)}, 422),
        ({"slotTime": None}, 422),
        ({}, 422),
        ({"slotTime": slot(hour=21)}, 409),
    ):
        assert (await anna.patch(path, json=body)).status_code == status, body
    assert await pool.fetchval("SELECT version FROM reservation WHERE id = $1", reservation) == 1


async def test_a_proposed_time_is_confirmed_by_the_customer(person: Person, pool: Pool) -> None:
    anna, giulia = person("CUSTOMER", 5), person("RESTAURANT_USER", 50)
    reservation = (await ask(anna))["id"]
    proposal = slot(days=31, hour=21)
    postponed = await giulia.post(f"/restaurant/reservation/{reservation}/postpone", json={"proposedTime": proposal})
    assert (postponed.json()["status"], postponed.json()["proposedTime"][:19]) == ("POSTPONED", proposal)
    (own,) = await fan_out(
        pool, reservation, event_type="RESERVATION_POSTPONED", audience="CUSTOMER", people=("CUSTOMER", [5])
    )
    (shown,) = (await anna.get("/notifications")).json()["items"]
    assert shown["actions"] == ["CONFIRMED", "REJECTED"]
    confirmed = await anna.post(f"/notifications/{own}/actions", json={"actionType": "CONFIRMED"})
    assert confirmed.status_code == 200
    assert confirmed.json()["actions"] == []
    after = (await anna.get(f"/customer/reservation/{reservation}")).json()
    assert (after["status"], after["slotTime"][:19], after["proposedTime"]) == ("ACCEPTED", proposal, None)
    assert [event["event_type"] for event in await events(pool, reservation)][2:] == ["RESERVATION_ACCEPTED"]
    assert len(await reminders(pool, reservation)) == 3
    again = await anna.post(f"/notifications/{own}/actions", json={"actionType": "REJECTED"})
    assert again.status_code == 409
    assert again.json()["handledBy"]["actorId"] == 5


async def test_declining_a_proposed_time_cancels_the_reservation(person: Person, pool: Pool) -> None:
    anna, giulia = person("CUSTOMER", 5), person("RESTAURANT_USER", 50)
    reservation = (await ask(anna))["id"]
    staff, *_ = await fan_out(pool, reservation)
    by_notification = await giulia.post(
        f"/notifications/{staff}/actions", json={"actionType": "POSTPONED", "proposedTime": slot(hour=21)}
    )
    assert by_notification.status_code == 200
    (own,) = await fan_out(
        pool, reservation, event_type="RESERVATION_POSTPONED", audience="CUSTOMER", people=("CUSTOMER", [5])
    )
    assert (await anna.post(f"/notifications/{own}/actions", json={"actionType": "REJECTED"})).status_code == 200
    assert (await events(pool, reservation))[-1]["event_type"] == "RESERVATION_CANCELLED"
    late = await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    assert late.status_code == 409
    assert (late.json()["handledBy"]["action"], late.json()["handledBy"]["actorName"]) == ("REJECTED", "Anna Bianchi")


async def test_a_proposed_time_is_validated(anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool) -> None:
    reservation = (await ask(anna))["id"]
    mine, *_ = await fan_out(pool, reservation)
    for body in (
        {"actionType": "POSTPONED"},
        {"actionType": "CONFIRMED", "proposedTime": slot()},
        {"actionType": "POSTPONED", "proposedTime": slot(hour=4)},
        {"actionType": "EATEN"},
    ):
        assert (await giulia.post(f"/notifications/{mine}/actions", json=body)).status_code == 422, body
    assert await pool.fetchval("SELECT count(*) FROM notification_action") == 0


async def test_versions_and_times_increase_even_if_the_clock_goes_back(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    ahead = await pool.fetchval(
        "UPDATE reservation SET updated_at = now() + interval '1 hour' WHERE id = $1 RETURNING updated_at", reservation
    )
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    await anna.post(f"/customer/reservation/{reservation}/cancel")
    _, second, third = await events(pool, reservation)
    assert ahead < second["created_at"] < third["created_at"]
    assert (second["aggregate_version"], third["aggregate_version"]) == (2, 3)


async def test_concurrent_changes_get_distinct_versions(anna: httpx.AsyncClient, pool: Pool) -> None:
    reservation = (await ask(anna))["id"]
    answers = await asyncio.gather(
        *(anna.patch(f"/customer/reservation/{reservation}", json={"partySize": size}) for size in range(5, 15))
    )
    assert sorted(answer.json()["version"] for answer in answers) == list(range(2, 12))
    assert [event["aggregate_version"] for event in await events(pool, reservation)] == list(range(1, 12))
