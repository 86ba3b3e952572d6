"""People of all four types, managed by admins, managers, agencies and themselves."""

import asyncio
from typing import Any

import httpx
import pytest

from tablebell.postgres import Pool

from .conftest import Person, ask, fan_out

NEW = {"name": "Rosa Verdi", "email": "Rosa.Verdi@mail.example", "phone": "+39 333 111 2222", "locale": "es"}
PLACES: dict[str, dict[str, Any]] = {
    "CUSTOMER": {"agencyId": 7},
    "RESTAURANT_USER": {"restaurantId": 10, "role": "MANAGER"},
    "ADMIN_USER": {"role": "READ_ONLY"},
    "AGENCY_USER": {"agencyId": 7},
}

MISFITS: list[tuple[str, dict[str, Any], str]] = [
    ("CUSTOMER", {"name": "x"}, "email"),
    ("CUSTOMER", {"name": "x", "email": "x@mail.example", "role": "STAFF"}, "role"),
    ("CUSTOMER", {"name": "x", "email": "x@mail.example", "restaurantId": 10}, "restaurantId"),
    ("CUSTOMER", {"name": "x", "email": "x@mail.example", "agencyId": 4711}, "agencyId"),
    ("CUSTOMER", {"name": "x", "email": "x"}, "email"),
    ("CUSTOMER", {"name": "x", "phone": "333"}, "phone"),
    ("RESTAURANT_USER", {"name": "x", "email": "x@mail.example"}, "restaurantId"),
    ("RESTAURANT_USER", {"name": "x", "email": "x@mail.example", "restaurantId": 4711}, "restaurantId"),
    ("RESTAURANT_USER", {"name": "x", "email": "x@mail.example", "restaurantId": 10, "role": "ADMIN"}, "role"),
    ("ADMIN_USER", {"name": "x", "email": "x@mail.example"}, "role"),
    ("AGENCY_USER", {"name": "x", "email": "x@mail.example"}, "agencyId"),
]


@pytest.fixture
def elena(person: Person) -> httpx.AsyncClient:
    return person("ADMIN_USER", 1)


async def test_a_person_of_each_type_is_created_found_changed_and_deactivated(elena: httpx.AsyncClient) -> None:
    for user_type in PLACES:
        await check_life_of_a_person(elena, user_type)


async def check_life_of_a_person(elena: httpx.AsyncClient, user_type: str) -> None:
    path = f"/admin/people/{user_type}"
    answer = await elena.post(path, json=NEW | PLACES[user_type])
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made.items() >= (NEW | PLACES[user_type] | {"phone": "+393331112222", "active": True}).items()
    assert (await elena.get(path, params={"q": "rosa.verdi"})).json()["items"] == [made]
    changed = (await elena.patch(f"{path}/{made['id']}", json={"phone": None, "timezone": "Europe/Madrid"})).json()
    expected = {**made, "phone": None, "timezone": "Europe/Madrid", "updatedAt": changed["updatedAt"]}
    assert changed == expected
    assert (await elena.post(f"{path}/{made['id']}/deactivate")).json()["active"] is False
    assert (await elena.get(path, params={"active": "true", "q": "rosa"})).json()["items"] == []
    assert (await elena.post(f"{path}/{made['id']}/reactivate")).json()["active"] is True
    changes = (await elena.get("/admin/changes", params={"subjectType": user_type, "subjectId": made["id"]})).json()
    acts = [(one["act"], sorted(one["after"])) for one in changes["items"]]
    assert acts[:3] == [("REACTIVATE", ["active"]), ("DEACTIVATE", ["active"]), ("CHANGE", ["phone", "timezone"])]
    assert acts[3][0] == "CREATE"


async def test_a_field_that_is_invalid_or_does_not_fit_the_type_is_named(elena: httpx.AsyncClient) -> None:
    for user_type, body, field in MISFITS:
        answer = await elena.post(f"/admin/people/{user_type}", json=body)
        assert answer.status_code == 422, body
        assert [error["field"] for error in answer.json()["errors"]] == [field], answer.text


async def test_a_duplicate_is_409_and_names_the_field_and_the_person(elena: httpx.AsyncClient) -> None:
    await elena.patch("/admin/people/CUSTOMER/6", json={"externalId": "C-6"})
    for body, expected in (
        ({"email": "ANNA.Bianchi@mail.example"}, {"field": "email", "id": 5}),
        ({"phone": "+39 333 0000005"}, {"field": "phone", "id": 5}),
        ({"email": "new@mail.example", "externalId": "C-6"}, {"field": "externalId", "id": 6}),
    ):
        answer = await elena.post("/admin/people/CUSTOMER", json={"name": "x", **body})
        assert (answer.status_code, answer.json().get("duplicateOf")) == (409, expected)
    answer = await elena.patch("/admin/people/CUSTOMER/6", json={"email": "anna.bianchi@mail.example"})
    assert answer.json()["duplicateOf"] == {"field": "email", "id": 5}
    same = {"name": "Anna the admin", "email": "anna.bianchi@mail.example", "role": "ADMIN"}
    assert (await elena.post("/admin/people/ADMIN_USER", json=same)).status_code == 201, "types are separate"
    assert (await elena.patch("/admin/people/CUSTOMER/5", json={"email": "Anna.Bianchi@mail.example"})).is_success


async def test_people_are_listed_in_pages_and_by_restaurant_or_agency(elena: httpx.AsyncClient) -> None:
    path, ids, cursor = "/admin/people/RESTAURANT_USER", [], None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await elena.get(path, params=params)).json()
        ids.append([item["id"] for item in page["items"]])
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert ids == [[50, 51], [52, 60]]
    for params, expected in (({"restaurantId": 11}, [60]), ({"q": "+39333"}, [50, 51, 52, 60]), ({"q": "%"}, [])):
        assert [one["id"] for one in (await elena.get(path, params=params)).json()["items"]] == expected
    customers = (await elena.get("/admin/people/CUSTOMER", params={"agencyId": 7})).json()["items"]
    assert [one["id"] for one in customers] == [5, 6]


async def test_a_manager_manages_only_the_own_staff(person: Person, pool: Pool) -> None:
    giulia, marco = person("RESTAURANT_USER", 50), person("RESTAURANT_USER", 51)
    assert [one["id"] for one in (await marco.get("/restaurant/staff")).json()["items"]] == [50, 51, 52]
    assert (await marco.post("/restaurant/staff", json=NEW)).status_code == 403
    assert (await marco.patch("/restaurant/staff/52", json={"role": "MANAGER"})).status_code == 403
    made = (await giulia.post("/restaurant/staff", json=NEW)).json()
    assert (made["restaurantId"], made["role"]) == (10, "STAFF")
    assert (await giulia.patch(f"/restaurant/staff/{made['id']}", json={"role": "MANAGER"})).json()["role"] == "MANAGER"
    assert (await giulia.patch("/restaurant/staff/60", json={"name": "x"})).status_code == 404
    assert (await giulia.patch("/restaurant/staff/51", json={"restaurantId": 11})).status_code == 422
    assert (await giulia.patch("/restaurant/staff/51", json={"role": "ADMIN"})).status_code == 422
    elsewhere = await giulia.post("/restaurant/staff", json={"name": "x", "email": "paolo.neri@luna.example"})
    assert (elsewhere.status_code, elsewhere.json()["duplicateOf"]) == (409, {"field": "email"}), "no foreign ids"
    assert await pool.fetchval("SELECT name FROM restaurant_users WHERE id = 60") == "Paolo Neri"


async def test_staff_get_the_language_and_timezone_of_their_restaurant(person: Person, pool: Pool) -> None:
    await pool.execute("UPDATE restaurant SET locale = 'pt', timezone = 'Europe/Lisbon' WHERE id = 10")
    made = (
        await person("RESTAURANT_USER", 50).post("/restaurant/staff", json={"name": "x", "phone": "+3519100000"})
    ).json()
    assert (made["locale"], made["timezone"]) == ("pt", "Europe/Lisbon")


async def test_the_last_active_manager_keeps_the_role(person: Person, pool: Pool) -> None:
    giulia = person("RESTAURANT_USER", 50)
    for body in ({"role": "STAFF"}, {"active": False}):
        assert (await giulia.patch("/restaurant/staff/50", json=body)).status_code == 409
    await giulia.patch("/restaurant/staff/51", json={"role": "MANAGER"})
    await pool.execute("UPDATE restaurant_users SET active = false WHERE id = 51")
    assert (await giulia.patch("/restaurant/staff/50", json={"role": "STAFF"})).status_code == 409, "51 is inactive"
    await giulia.patch("/restaurant/staff/51", json={"active": True})
    assert (await giulia.patch("/restaurant/staff/50", json={"role": "STAFF"})).status_code == 200
    assert (await giulia.patch("/restaurant/staff/50", json={"role": "MANAGER"})).status_code == 403


async def test_of_two_managers_who_demote_each_other_one_stays(person: Person, pool: Pool) -> None:
    await pool.execute("UPDATE restaurant_users SET role = 'MANAGER' WHERE id = 51")
    giulia, marco = person("RESTAURANT_USER", 50), person("RESTAURANT_USER", 51)
    for _ in range(5):
        await pool.execute("UPDATE restaurant_users SET role = 'MANAGER' WHERE id IN (50, 51)")
        await asyncio.gather(
            giulia.patch("/restaurant/staff/51", json={"role": "STAFF"}),
            marco.patch("/restaurant/staff/50", json={"role": "STAFF"}),
        )
        managers = "SELECT count(*) FROM restaurant_users WHERE restaurant_id = 10 AND role = 'MANAGER' AND active"
        assert await pool.fetchval(managers) == 1


async def test_the_last_admin_stays_and_nobody_deactivates_themselves(elena: httpx.AsyncClient) -> None:
    assert (await elena.post("/admin/people/ADMIN_USER/1/deactivate")).status_code == 409
    assert (await elena.post("/admin/people/ADMIN_USER/2/deactivate")).status_code == 200
    assert (await elena.patch("/admin/people/ADMIN_USER/1", json={"role": "READ_ONLY"})).status_code == 409


async def test_an_agency_manages_only_its_customers(person: Person, pool: Pool) -> None:
    await pool.execute("INSERT INTO customer (id, name, email) VALUES (900, 'Alone', 'alone@mail.example')")
    carmen = person("AGENCY_USER", 70)
    made = (await carmen.post("/agency/customers", json=NEW)).json()
    assert made["agencyId"] == 7
    assert [one["id"] for one in (await carmen.get("/agency/customers")).json()["items"]] == [5, 6, made["id"]]
    assert (await carmen.patch(f"/agency/customers/{made['id']}", json={"active": False})).json()["active"] is False
    for path in ("/agency/customers/900", "/agency/customers/4711"):
        assert (await carmen.get(path)).status_code == 404
        assert (await carmen.patch(path, json={"name": "x"})).status_code == 404
    duplicate = await carmen.post("/agency/customers", json={"name": "x", "email": "alone@mail.example"})
    assert (duplicate.status_code, duplicate.json()["duplicateOf"]) == (409, {"field": "email"})
    assert (await carmen.post("/agency/customers", json={**NEW, "agencyId": 8})).status_code == 422


async def test_everyone_reads_and_changes_their_profile_but_not_their_rights(person: Person) -> None:
    for user_type, user_id in (("CUSTOMER", 5), ("RESTAURANT_USER", 51), ("ADMIN_USER", 2), ("AGENCY_USER", 70)):
        client = person(user_type, user_id)
        before = (await client.get("/me")).json()
        assert (before["userType"], before["userId"]) == (user_type, user_id)
        after = (
            await client.patch("/me", json={"name": "New Name", "locale": "pt", "fcmToken": f"t-{user_id}"})
        ).json()
        expected = {"name": "New Name", "locale": "pt", "fcmToken": f"t-{user_id}", "updatedAt": after["updatedAt"]}
        assert after == before | expected
        for body in (
            {"role": "ADMIN"},
            {"active": True},
            {"email": "x@mail.example"},
            {"agencyId": 8},
            {},
            {"name": None},
        ):
            assert (await client.patch("/me", json=body)).status_code == 422, body


async def test_a_profile_names_the_restaurant_of_staff(person: Person) -> None:
    staff = (await person("RESTAURANT_USER", 50).get("/me")).json()
    customer = (await person("CUSTOMER", 5).get("/me")).json()
    assert staff["restaurant"] == {"id": 10, "name": "Trattoria del Porto", "timezone": "Europe/Rome"}
    assert (staff["role"], customer["role"], customer["restaurant"], customer["agencyId"]) == ("MANAGER", None, None, 7)


async def test_a_deactivated_person_has_no_access_to_the_management(person: Person, elena: httpx.AsyncClient) -> None:
    giulia = person("RESTAURANT_USER", 50)
    assert (await elena.post("/admin/people/RESTAURANT_USER/50/deactivate")).status_code == 200
    for path in ("/me", "/restaurant", "/restaurant/staff"):
        assert (await giulia.get(path)).status_code == 401


async def test_deactivating_withdraws_the_unsent_messages_of_that_person_alone(
    person: Person, elena: httpx.AsyncClient, anna: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = await ask(anna)
    marco, sofia, giulia = await fan_out(pool, reservation["id"], people=("RESTAURANT_USER", [51, 52, 50]))
    await pool.execute(
        "UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT'"
        " WHERE notification_id = $1 AND channel_type = 'EMAIL'",
        marco,
    )
    await pool.execute(
        "UPDATE notification_channel_send"
        "   SET lease_token = gen_random_uuid(), lease_until = now() + interval '1 minute'"
        " WHERE notification_id = $1 AND channel_type = 'SMS'",
        marco,
    )
    assert (await elena.post("/admin/people/RESTAURANT_USER/51/deactivate")).status_code == 200
    rows = await pool.fetch(
        "SELECT notification_id, channel_type, is_sent, outcome, withdrawn_because FROM notification_channel_send"
    )
    found = {(row["notification_id"], row["channel_type"]): tuple(row)[2:] for row in rows}
    reason = "the recipient is not active any more"
    assert found[marco, "EMAIL"] == (True, "SENT", None)
    assert found[marco, "SMS"] == (None, None, reason), "its call may be in progress: the dispatcher withdraws it"
    assert found[marco, "PUSH"] == (False, "WITHDRAWN", reason)
    for other in (sofia, giulia):
        assert {found[other, channel] for channel in ("EMAIL", "SMS", "PUSH")} == {(None, None, None)}
