"""Of any number of concurrent actions on a shared notification, by any route and replica, exactly one is first."""

import asyncio
from collections import Counter
from datetime import datetime

import httpx
import pytest

from tablebell.events import NotificationData, ReservationData
from tablebell.postgres import Pool
from tablebell.testing import Database

from .conftest import Person, ask, events, fan_out, slot, token
from .processes import replicas

STAFF = list(range(200, 250))


async def hire(pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO restaurant_users (id, restaurant_id, name)"
        " SELECT id, 10, 'Staff ' || id FROM unnest($1::int[]) AS id",
        STAFF,
    )


@pytest.mark.timeout(180)
async def test_of_fifty_concurrent_decisions_by_both_routes_and_four_replicas_one_succeeds(
    database: Database, pool: Pool
) -> None:
    await hire(pool)
    async with replicas(database, 4) as apis, httpx.AsyncClient(timeout=30) as http:

        def bearer(user_type: str, user_id: int) -> dict[str, str]:
            return {"Authorization": f"Bearer {token(user_type, user_id)}"}

        asked = await http.post(
            f"{apis[0].url}/customer/reservation/ask",
            json={"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": slot()},
            headers=bearer("CUSTOMER", 5),
        )
        reservation = asked.json()["id"]
        notifications = await fan_out(pool, reservation, people=("RESTAURANT_USER", STAFF))

        async def act(number: int) -> httpx.Response:
            url, staff = apis[number % 4].url, bearer("RESTAURANT_USER", STAFF[number])
            if number % 2:
                path = f"{url}/restaurant/reservation/{reservation}/{'accept' if number % 3 else 'reject'}"
                return await http.post(path, headers=staff)
            action = {"actionType": "CONFIRMED" if number % 3 else "REJECTED"}
            return await http.post(f"{url}/notifications/{notifications[number]}/actions", json=action, headers=staff)

        answers = await asyncio.gather(*(act(number) for number in range(len(STAFF))))

    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 49}
    (winner,) = [STAFF[number] for number, answer in enumerate(answers) if answer.status_code == 200]
    _, decision = await events(pool, reservation)
    data = ReservationData.model_validate(decision["payload"])
    assert decision["event_type"] in {"RESERVATION_ACCEPTED", "RESERVATION_REJECTED"}
    assert decision["aggregate_version"] == 2
    assert data.actor is not None
    assert data.actor.user_id == winner

    (action,) = await pool.fetch("SELECT * FROM notification_action")
    assert (action["actor_id"], action["first_to_act"], action["action_type"]) == (winner, True, data.action)
    assert (action["reservation_version"], action["resulting_version"]) == (1, 2)
    assert action["event_notification_id"] is not None
    assert action["notification_id"] == notifications[STAFF.index(winner)]
    for lost in (answer.json() for answer in answers if answer.status_code == 409):
        assert lost["type"] == "urn:tablebell:problem:already-handled"
        handled = lost["handledBy"]
        assert (handled["actorId"], handled["actorName"]) == (winner, f"Staff {winner}")
        assert (handled["action"], handled["actorType"]) == (data.action, "RESTAURANT_USER")
        assert datetime.fromisoformat(handled["at"]) == action["created_at"]

    sends = await pool.fetch("SELECT DISTINCT is_sent, outcome, last_error FROM notification_channel_send")
    reason = f"handled by Staff {winner} ({data.action})"
    assert [tuple(row.values()) for row in sends] == [(False, "WITHDRAWN", reason)]


async def test_a_decision_withdraws_pending_sends_marks_leased_ones_and_keeps_sent_ones(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = await ask(anna)
    await fan_out(pool, reservation["id"])
    await pool.execute(
        "UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT', sent_at = now()"
        " WHERE channel_type = 'SMS'"
    )
    await pool.execute(
        "UPDATE notification_channel_send"
        " SET lease_token = gen_random_uuid(), lease_until = now() + interval '1 minute' WHERE channel_type = 'PUSH'"
    )
    assert (await giulia.post(f"/restaurant/reservation/{reservation['id']}/accept")).status_code == 200
    rows = await pool.fetch(
        "SELECT DISTINCT channel_type, outcome, last_error, withdrawn_because, lease_until > now() AS is_leased"
        "  FROM notification_channel_send ORDER BY 1"
    )
    reason = "handled by Giulia Ferri (CONFIRMED)"
    assert [tuple(row.values()) for row in rows] == [
        ("EMAIL", "WITHDRAWN", reason, reason, None),
        ("PUSH", None, reason, reason, True),
        ("SMS", "SENT", None, None, None),
    ]


async def test_a_decision_before_the_notification_exists_resolves_it(person: Person, pool: Pool) -> None:
    reservation = await ask(person("CUSTOMER", 5))
    accepted = await person("RESTAURANT_USER", 51).post(f"/restaurant/reservation/{reservation['id']}/accept")
    assert accepted.status_code == 200
    ids = await fan_out(pool, reservation["id"])
    late = await person("RESTAURANT_USER", 50).post(f"/notifications/{ids[0]}/actions", json={"actionType": "REJECTED"})
    assert late.status_code == 409
    assert late.json()["handledBy"]["actorName"] == "Marco Riva"
    (shown,) = (await person("RESTAURANT_USER", 50).get("/notifications")).json()["items"]
    assert shown["actions"] == []
    assert (shown["resolution"]["action"], shown["resolution"]["actorName"]) == ("CONFIRMED", "Marco Riva")


async def test_a_customers_cancellation_or_change_counts_as_the_first_action(person: Person, pool: Pool) -> None:
    anna, giulia = person("CUSTOMER", 5), person("RESTAURANT_USER", 50)
    reservation = (await ask(anna))["id"]
    old, *_ = await fan_out(pool, reservation)
    changed = await anna.patch(f"/customer/reservation/{reservation}", json={"partySize": 6})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    late = await giulia.post(f"/notifications/{old}/actions", json={"actionType": "CONFIRMED"})
    assert late.status_code == 409
    assert late.json()["handledBy"]["actorName"] == "Anna Bianchi"

    new, *_ = await fan_out(pool, reservation, event_type="RESERVATION_CHANGED")
    assert (await anna.post(f"/customer/reservation/{reservation}/cancel")).status_code == 200
    for path, body in (
        (f"/notifications/{new}/actions", {"actionType": "CONFIRMED"}),
        (f"/restaurant/reservation/{reservation}/accept", None),
    ):
        late = await giulia.post(path, json=body)
        assert late.status_code == 409
        handled = late.json()["handledBy"]
        assert (handled["actorType"], handled["actorName"]) == ("CUSTOMER", "Anna Bianchi")
    assert await pool.fetchval("SELECT count(*) FROM notification_channel_send WHERE outcome = 'WITHDRAWN'") == 18


async def test_a_custom_action_resolves_the_notification_for_all_and_the_reservation_can_still_be_decided(
    person: Person, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    mine, theirs, _ = await fan_out(pool, reservation)
    handled = await person("RESTAURANT_USER", 50).post(f"/notifications/{mine}/actions", json={"actionType": "CUSTOM"})
    assert handled.status_code == 200
    assert handled.json()["resolution"]["actorName"] == "Giulia Ferri"
    late = await person("RESTAURANT_USER", 51).post(
        f"/notifications/{theirs}/actions", json={"actionType": "CONFIRMED"}
    )
    assert late.status_code == 409
    assert late.json()["handledBy"]["action"] == "CUSTOM"
    event = await pool.fetchrow("SELECT * FROM event_outbox WHERE event_type = 'NOTIFICATION_RESOLVED'")
    assert event is not None
    data = NotificationData.model_validate(event["payload"])
    assert (data.audience, data.action, data.shared) == ("RESTAURANT", "CUSTOM", True)
    assert event["aggregate_id"] == data.event_notification_id == handled.json()["eventNotificationId"]

    decided = await person("RESTAURANT_USER", 51).post(f"/restaurant/reservation/{reservation}/accept")
    assert (decided.status_code, decided.json()["status"]) == (200, "ACCEPTED")
    rows = await pool.fetch("SELECT action_type, first_to_act FROM notification_action ORDER BY id")
    assert [tuple(row.values()) for row in rows] == [("CUSTOM", True), ("CONFIRMED", False)]


async def test_repeated_dismissals_are_recorded_once(person: Person, pool: Pool) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    (own,) = await fan_out(pool, reservation, audience="CUSTOMER", people=("CUSTOMER", [5]))
    (agents,) = await fan_out(pool, reservation, audience="AGENCY", people=("AGENCY_USER", [70]))
    customer, agent = person("CUSTOMER", 5), person("AGENCY_USER", 70)
    dismissals = [customer.post(f"/notifications/{own}/actions", json={"actionType": "DISMISSED"}) for _ in range(8)]
    assert {answer.status_code for answer in await asyncio.gather(*dismissals)} == {200}
    assert (await agent.post(f"/notifications/{agents}/actions", json={"actionType": "DISMISSED"})).status_code == 200
    rows = await pool.fetch("SELECT notification_id, action_type FROM notification_action ORDER BY id")
    assert [tuple(row) for row in rows] == [(own, "DISMISSED"), (agents, "DISMISSED")]


async def test_a_customers_dismissal_does_not_resolve_the_staffs_notification(person: Person, pool: Pool) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    (own,) = await fan_out(pool, reservation, audience="CUSTOMER", people=("CUSTOMER", [5]))
    staff, *_ = await fan_out(pool, reservation)
    customer = person("CUSTOMER", 5)
    assert (await customer.post(f"/notifications/{own}/actions", json={"actionType": "DISMISSED"})).status_code == 200
    accept = await customer.post(f"/notifications/{own}/actions", json={"actionType": "CONFIRMED"})
    assert accept.status_code == 409, "a customer does not accept their own reservation"
    decided = await person("RESTAURANT_USER", 50).post(
        f"/notifications/{staff}/actions", json={"actionType": "CONFIRMED"}
    )
    assert decided.status_code == 200
