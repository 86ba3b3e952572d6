"""Restaurants and agencies: admins manage all of them, managers their own restaurant."""

from typing import Any

import httpx
import pytest

from tablebell.postgres import Pool

from .conftest import Person, ask_body

NEW = {
    "name": "Osteria Nuova",
    "address": "Via Nuova 1, Genova",
    "phone": "+39 010 555 0199",
    "timezone": "Europe/Lisbon",
    "locale": "pt",
    "maxPartySize": 8,
    "openingHours": {"fri": [["19:00", "02:00"]]},
    "closures": [{"day": "2027-12-31", "reason": "Holiday"}, {"day": "2027-12-24"}],
    "senderName": "Nuova",
    "replyTo": "book@nuova.example",
    "externalId": "R-1",
}

INVALID: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name"),
    ({"name": "x", "phone": "010 5550110"}, "phone"),
    ({"name": "x", "replyTo": "nobody"}, "replyTo"),
    ({"name": "x", "timezone": "Mars/Olympus"}, "timezone"),
    ({"name": "x", "locale": "de"}, "locale"),
    ({"name": "x", "maxPartySize": 0}, "maxPartySize"),
    ({"name": "x", "openingHours": {"fri": [["19:00", "19:00"]]}}, "openingHours"),
    ({"name": "x", "closures": [{"day": "2027-02-30"}]}, "closures.0.day"),
    ({"name": "x", "closures": [{"day": "2027-02-03"}, {"day": "2027-02-03"}]}, "closures"),
    ({"name": "x", "colour": "red"}, "colour"),
]


@pytest.fixture
def elena(person: Person) -> httpx.AsyncClient:
    return person("ADMIN_USER", 1)


async def created(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_restaurant_is_created_with_all_its_fields_and_found_again(elena: httpx.AsyncClient) -> None:
    made = await created(elena, "/admin/restaurants", NEW)
    assert made["phone"] == "+390105550199"
    assert made["closures"] == [{"day": "2027-12-24", "reason": None}, {"day": "2027-12-31", "reason": "Holiday"}]
    assert {**made, "phone": NEW["phone"], "closures": NEW["closures"]}.items() >= NEW.items()
    assert (await elena.get(f"/admin/restaurants/{made['id']}")).json() == made
    found = (await elena.get("/admin/restaurants", params={"q": "NUOVA"})).json()
    assert found == {"items": [made], "nextCursor": None}


async def test_a_reservation_after_midnight_follows_the_hours_of_the_day_before(
    elena: httpx.AsyncClient, anna: httpx.AsyncClient
) -> None:
    made = await created(elena, "/admin/restaurants", {**NEW, "timezone": "Europe/Rome"})
    # 2027-06-04 is a Friday.
    for slot_time, status in (("2027-06-05T01:45:00", 200), ("2027-06-05T02:00:00", 422), ("2027-06-05T19:00:00", 422)):
        body = ask_body(restaurantId=made["id"], slotTime=slot_time)
        assert (await anna.post("/customer/reservation/ask", json=body)).status_code == status, slot_time


async def test_a_change_of_one_field_leaves_the_others_and_null_clears(elena: httpx.AsyncClient) -> None:
    made = await created(elena, "/admin/restaurants", NEW)
    path = f"/admin/restaurants/{made['id']}"
    changed = (await elena.patch(path, json={"openingHours": None, "address": None, "closures": []})).json()
    expected = {**made, "openingHours": None, "address": None, "closures": [], "updatedAt": changed["updatedAt"]}
    assert changed == expected
    assert changed["updatedAt"] > made["updatedAt"]
    again = (await elena.patch(path, json={"address": None})).json()
    assert again == changed, "a change that changes nothing leaves no trace"


async def test_an_invalid_field_is_named(elena: httpx.AsyncClient) -> None:
    for body, field in INVALID:
        answer = await elena.post("/admin/restaurants", json=body)
        assert answer.status_code == 422, body
        assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_the_same_external_id_is_409_with_the_existing_one(elena: httpx.AsyncClient) -> None:
    for path in ("/admin/restaurants", "/admin/agencies"):
        made = await created(elena, path, {"name": "One", "externalId": "E-1"})
        answer = await elena.post(path, json={"name": "Two", "externalId": "E-1"})
        assert answer.status_code == 409
        assert answer.json()["duplicateOf"] == {"field": "externalId", "id": made["id"]}
        other = await created(elena, path, {"name": "Three"})
        answer = await elena.patch(f"{path}/{other['id']}", json={"externalId": "E-1"})
        assert answer.json()["duplicateOf"] == {"field": "externalId", "id": made["id"]}


async def test_an_agency_is_created_changed_and_listed(elena: httpx.AsyncClient) -> None:
    made = await created(elena, "/admin/agencies", {"name": "Viaggi Blu"})
    changed = (await elena.patch(f"/admin/agencies/{made['id']}", json={"name": "Viaggi Verdi"})).json()
    assert (changed["name"], changed["externalId"]) == ("Viaggi Verdi", None)
    assert (await elena.get("/admin/agencies", params={"q": "verdi"})).json()["items"] == [changed]
    assert (await elena.get(f"/admin/agencies/{made['id']}")).json() == changed
    assert (await elena.patch("/admin/agencies/4711", json={"name": "x"})).status_code == 404


async def test_staff_read_their_restaurant_and_only_managers_change_it(person: Person, pool: Pool) -> None:
    giulia, marco = person("RESTAURANT_USER", 50), person("RESTAURANT_USER", 51)
    assert (await marco.get("/restaurant")).json()["id"] == 10
    refused = await marco.patch("/restaurant", json={"maxPartySize": 6})
    assert refused.status_code == 403
    assert "MANAGER" in refused.json()["detail"]
    changed = (await giulia.patch("/restaurant", json={"maxPartySize": 6})).json()
    assert (changed["id"], changed["maxPartySize"]) == (10, 6)
    assert await pool.fetchval("SELECT max_party_size FROM restaurant WHERE id = 11") == 12
    assert (await giulia.patch("/restaurant", json={"externalId": "x"})).status_code == 422


async def test_a_read_only_admin_reads_but_changes_nothing(person: Person, pool: Pool) -> None:
    await pool.execute("UPDATE admin_users SET role = 'READ_ONLY' WHERE id = 2")
    david = person("ADMIN_USER", 2)
    for path in ("/admin/restaurants", "/admin/agencies", "/admin/people/CUSTOMER", "/admin/changes", "/admin/outbox"):
        assert (await david.get(path)).status_code == 200, path
    selection = {"level": "event_outbox", "ids": [1]}
    for method, path, body in (
        ("POST", "/admin/restaurants", NEW),
        ("PATCH", "/admin/restaurants/10", {"name": "x"}),
        ("POST", "/admin/agencies", {"name": "x"}),
        ("POST", "/admin/people/CUSTOMER", {"name": "x", "phone": "+393339999999"}),
        ("PATCH", "/admin/people/CUSTOMER/5", {"name": "x"}),
        ("POST", "/admin/people/CUSTOMER/5/deactivate", None),
        ("POST", "/admin/outbox/requeue", selection),
        ("POST", "/admin/outbox/discard", selection),
        ("POST", "/admin/undeliverable-addresses/clear", {"reasonContains": "550"}),
    ):
        assert (await david.request(method, path, json=body)).status_code == 403, path
    assert await pool.fetchval("SELECT count(*) FROM management_change") == 0


async def test_every_change_is_recorded_with_actor_before_and_after(elena: httpx.AsyncClient, person: Person) -> None:
    made = await created(elena, "/admin/restaurants", {"name": "Old"})
    await elena.patch(f"/admin/restaurants/{made['id']}", json={"name": "New", "closures": [{"day": "2027-12-24"}]})
    await person("RESTAURANT_USER", 50).patch("/restaurant", json={"maxPartySize": 6})
    where = {"subjectType": "RESTAURANT", "subjectId": made["id"]}
    changed, first = (await elena.get("/admin/changes", params=where)).json()["items"]
    assert (first["act"], first["before"], first["after"]["name"]) == ("CREATE", {}, "Old")
    assert changed["act"] == "CHANGE"
    assert changed["before"] == {"name": "Old", "closures": []}
    assert changed["after"] == {"name": "New", "closures": [{"day": "2027-12-24", "reason": None}]}
    assert (changed["actorType"], changed["actorId"], changed["actorName"]) == ("ADMIN_USER", 1, "Elena Conti")
    by_giulia = (await elena.get("/admin/changes", params={"actorType": "RESTAURANT_USER", "actorId": 50})).json()
    assert [(one["subjectId"], one["after"]) for one in by_giulia["items"]] == [(10, {"maxPartySize": 6})]
    pages = [(await elena.get("/admin/changes", params={"limit": 2})).json()]
    pages.append((await elena.get("/admin/changes", params={"limit": 2, "cursor": pages[0]["nextCursor"]})).json())
    assert [len(page["items"]) for page in pages] == [2, 1]
    assert pages[1]["nextCursor"] is None
