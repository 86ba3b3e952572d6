"""An agency's users list, read, change, cancel and confirm the reservations of the agency's customers."""

import httpx
import pytest

from tablebell.postgres import Pool

from .conftest import Person, ask, events, fan_out, slot


@pytest.fixture
def carmen(person: Person) -> httpx.AsyncClient:
    return person("AGENCY_USER", 70)


async def test_an_agency_lists_and_reads_the_reservations_of_its_customers_alone(
    carmen: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    await pool.execute("INSERT INTO customer (id, name) VALUES (900, 'Alone')")
    annas = await ask(carmen, customerId=5)
    luis = await ask(person("CUSTOMER", 6), customerId=6)
    alone = await ask(person("CUSTOMER", 900), customerId=900)
    listed = (await carmen.get("/customer/reservation")).json()["items"]
    assert [one["id"] for one in listed] == [luis["id"], annas["id"]]
    assert listed[1] == annas
    for params, expected in (
        ({"customerId": 6}, [luis["id"]]),
        ({"customerId": 900}, []),
        ({"status": "ACCEPTED"}, []),
    ):
        page = (await carmen.get("/customer/reservation", params=params)).json()
        assert [one["id"] for one in page["items"]] == expected
    first = (await carmen.get("/customer/reservation", params={"limit": 1})).json()
    second = (await carmen.get("/customer/reservation", params={"limit": 1, "cursor": first["nextCursor"]})).json()
    assert [page["items"][0]["id"] for page in (first, second)] == [luis["id"], annas["id"]]
    assert (await carmen.get(f"/customer/reservation/{annas['id']}")).json() == annas
    for request in ("GET", "PATCH"):
        body = {"partySize": 2} if request == "PATCH" else None
        assert (await carmen.request(request, f"/customer/reservation/{alone['id']}", json=body)).status_code == 404
    assert (await carmen.post(f"/customer/reservation/{alone['id']}/cancel")).status_code == 404
    own = await person("CUSTOMER", 5).get("/customer/reservation", params={"customerId": 6})
    assert own.json()["items"] == [], "a customer sees only their own"


async def test_an_agency_changes_and_cancels_for_its_customer(carmen: httpx.AsyncClient, pool: Pool) -> None:
    made = await ask(carmen, customerId=5)
    path = f"/customer/reservation/{made['id']}"
    changed = (await carmen.patch(path, json={"partySize": 6})).json()
    assert (changed["partySize"], changed["version"]) == (6, 2)
    cancelled = (await carmen.post(f"{path}/cancel")).json()
    assert cancelled["status"] == "CANCELLED"
    written = await events(pool, made["id"])
    assert [event["event_type"] for event in written[1:]] == ["RESERVATION_CHANGED", "RESERVATION_CANCELLED"]
    actor = {"userType": "AGENCY_USER", "userId": 70, "name": "Carmen Vidal"}
    assert [event["payload"]["actor"] for event in written[1:]] == [actor, actor]
    actions = await pool.fetch("SELECT actor_type, actor_id, action_type FROM notification_action ORDER BY id")
    assert [tuple(action) for action in actions] == [("AGENCY_USER", 70, "CUSTOM"), ("AGENCY_USER", 70, "CUSTOM")]


@pytest.mark.parametrize(("answer", "status"), [("CONFIRMED", "ACCEPTED"), ("REJECTED", "CANCELLED")])
async def test_an_agency_answers_a_proposed_time_and_the_customer_comes_second(
    carmen: httpx.AsyncClient, anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool, answer: str, status: str
) -> None:
    made = await ask(carmen, customerId=5)
    proposed = slot(hour=21)
    await giulia.post(f"/restaurant/reservation/{made['id']}/postpone", json={"proposedTime": proposed})
    copies = {}
    for audience, person in (("CUSTOMER", ("CUSTOMER", [5])), ("AGENCY", ("AGENCY_USER", [70]))):
        (copies[audience],) = await fan_out(
            pool, made["id"], event_type="RESERVATION_POSTPONED", audience=audience, people=person
        )
    (shown,) = (await carmen.get("/notifications")).json()["items"]
    assert shown["actions"] == ["CONFIRMED", "REJECTED"]
    done = await carmen.post(f"/notifications/{copies['AGENCY']}/actions", json={"actionType": answer})
    assert done.json()["resolution"]["actorName"] == "Carmen Vidal"
    reservation = (await carmen.get(f"/customer/reservation/{made['id']}")).json()
    assert reservation["status"] == status
    assert reservation["slotTime"][:19] == (proposed if answer == "CONFIRMED" else made["slotTime"][:19])
    late = await anna.post(f"/notifications/{copies['CUSTOMER']}/actions", json={"actionType": "CONFIRMED"})
    assert (late.status_code, late.json()["handledBy"]["actorName"]) == (409, "Carmen Vidal")
