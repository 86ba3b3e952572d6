"""What is open: requests that nobody has answered, and proposed times. Dismissing hides for its owner alone."""

from typing import Any

import httpx

from tablebell.events import NotificationData
from tablebell.postgres import Pool

from .conftest import Person, ask, fan_out, slot


async def open_ids(client: httpx.AsyncClient) -> list[int]:
    """The ids of `?open=true`, page by page. The count must agree."""
    ids: list[int] = []
    query: dict[str, Any] = {"open": "true", "limit": 2}
    while True:
        page = (await client.get("/notifications", params=query)).json()
        ids += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert (await client.get("/notifications/unread-count")).json()["open"] == len(ids)
    return ids


async def test_a_request_is_open_until_it_is_answered_however_much_other_traffic_there_is(
    person: Person, pool: Pool
) -> None:
    anna, giulia, marco = person("CUSTOMER", 5), person("RESTAURANT_USER", 50), person("RESTAURANT_USER", 51)
    requests = []
    for day in range(30, 35):
        reservation = (await ask(anna, slotTime=slot(day)))["id"]
        requests.append((reservation, await fan_out(pool, reservation)))
    await giulia.post("/notifications/read-all")
    assert await open_ids(giulia) == [ids[0] for _, ids in reversed(requests)], "read is not answered"
    await marco.post(f"/restaurant/reservation/{requests[1][0]}/accept")
    await marco.post(f"/notifications/{requests[2][1][1]}/actions", json={"actionType": "REJECTED"})
    await anna.post(f"/customer/reservation/{requests[3][0]}/cancel")
    await anna.patch(f"/customer/reservation/{requests[4][0]}", json={"partySize": 6})
    assert await open_ids(giulia) == [requests[0][1][0]], "a changed request is open as its new version"
    changed = await fan_out(pool, requests[4][0], event_type="RESERVATION_CHANGED")
    assert await open_ids(giulia) == [changed[0], requests[0][1][0]]
    assert await open_ids(person("RESTAURANT_USER", 60)) == []
    assert await open_ids(person("ADMIN_USER", 1)) == []


async def test_a_proposed_time_is_open_for_the_guest_until_it_is_answered(person: Person, pool: Pool) -> None:
    anna, giulia = person("CUSTOMER", 5), person("RESTAURANT_USER", 50)
    reservation = (await ask(anna))["id"]
    await fan_out(pool, reservation)
    await giulia.post(f"/restaurant/reservation/{reservation}/postpone", json={"proposedTime": slot(hour=21)})
    (own,) = await fan_out(
        pool, reservation, event_type="RESERVATION_POSTPONED", audience="CUSTOMER", people=("CUSTOMER", [5])
    )
    assert (await open_ids(anna), await open_ids(giulia)) == ([own], [])
    assert (await anna.post(f"/notifications/{own}/actions", json={"actionType": "CONFIRMED"})).status_code == 200
    assert await open_ids(anna) == []


async def test_dismissing_hides_a_request_for_its_owner_and_it_stays_open_for_the_colleagues(
    person: Person, pool: Pool
) -> None:
    giulia, marco = person("RESTAURANT_USER", 50), person("RESTAURANT_USER", 51)
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    mine, theirs, _ = await fan_out(pool, reservation)
    for _ in range(2):
        hidden = await giulia.post(f"/notifications/{mine}/actions", json={"actionType": "DISMISSED"})
        assert hidden.status_code == 200
        assert (hidden.json()["hidden"], hidden.json()["resolution"]) == (True, None)
        assert hidden.json()["actions"] == ["CONFIRMED", "REJECTED", "POSTPONED"]
    assert (await open_ids(giulia), await open_ids(marco)) == ([], [theirs])
    (seen,) = (await marco.get("/notifications")).json()["items"]
    assert (seen["hidden"], seen["resolution"], len(seen["actions"])) == (False, None, 4)
    assert await pool.fetchval("SELECT count(*) FROM notification_channel_send WHERE is_sent IS NULL") == 9
    (event,) = await pool.fetch("SELECT payload FROM event_outbox WHERE aggregate_type = 'notification'")
    data = NotificationData.model_validate(event["payload"])
    assert (data.actor.user_id, data.notification_ids, data.shared) == (50, [mine], False)
    # Who has hidden it can still answer it, and a hidden one can be answered by a colleague.
    answered = await giulia.post(f"/notifications/{mine}/actions", json={"actionType": "CONFIRMED"})
    assert answered.json()["resolution"]["actorName"] == "Giulia Ferri"
    assert await open_ids(marco) == []
    late = await marco.post(f"/notifications/{theirs}/actions", json={"actionType": "DISMISSED"})
    assert (late.status_code, late.json()["hidden"]) == (200, True), "an answered request can be hidden too"


async def test_a_resolution_says_what_happened_by_whom_and_the_times(person: Person, pool: Pool) -> None:
    anna, giulia = person("CUSTOMER", 5), person("RESTAURANT_USER", 50)
    first = await ask(anna)
    await fan_out(pool, first["id"])
    await giulia.post(f"/restaurant/reservation/{first['id']}/postpone", json={"proposedTime": slot(hour=21)})
    second = await ask(anna, slotTime=slot(31))
    await fan_out(pool, second["id"])
    await anna.post(f"/customer/reservation/{second['id']}/cancel")
    cancelled, proposed = (item["resolution"] for item in (await giulia.get("/notifications")).json()["items"])
    assert (cancelled["actorType"], cancelled["actorName"]) == ("CUSTOMER", "Anna Bianchi")
    assert cancelled["outcome"]["eventType"] == "RESERVATION_CANCELLED"
    assert (proposed["actorType"], proposed["actorName"]) == ("RESTAURANT_USER", "Giulia Ferri")
    assert proposed["outcome"]["eventType"] == "RESERVATION_POSTPONED"
    assert proposed["outcome"]["partySize"] == 4
    times = await pool.fetchrow("SELECT slot_time, proposed_time FROM reservation WHERE id = $1", first["id"])
    assert times is not None
    assert proposed["outcome"]["slotTime"] == times["slot_time"].isoformat().replace("+00:00", "Z")
    assert proposed["outcome"]["proposedTime"] == times["proposed_time"].isoformat().replace("+00:00", "Z")
