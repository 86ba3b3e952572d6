"""POST /customer/reservation/ask: what it writes, what it returns, what it refuses."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from tablebell.events import ReservationData
from tablebell.outbox import Level
from tablebell.postgres import Pool, connect
from tablebell.testing import Database, eventually

from .conftest import Person, ask, ask_body, events, slot

EXAMPLE = Path(__file__).parents[4] / "shared/tests/unit/events/RESERVATION_REQUESTED.json"

WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"slotTime": "2020-01-01T20:00:00"}, "slotTime", "in the past"),
    ({"slotTime": slot(days=4000)}, "slotTime", "730 days"),
    ({"slotTime": slot(hour=4)}, "slotTime", "closed"),
    ({"slotTime": slot(hour=16)}, "slotTime", "closed"),
    ({"slotTime": "tomorrow"}, "slotTime", "date and time"),
    ({"slotTime": 1893456000}, "slotTime", "date and time"),
    ({"slotTime": "1893456000"}, "slotTime", "date and time"),
    ({"slotTime": "2027-13-14T20:00:00"}, "slotTime", "month"),
    ({"slotTime": "9999-12-31T23:59:00-12:00"}, "slotTime", "2200"),
    ({"slotTime": "2027-11-14T20:00:30"}, "slotTime", "whole minute"),
    ({"restaurantId": 4711}, "restaurantId", "does not exist"),
    ({"partySize": 0}, "partySize", "greater"),
    ({"partySize": 21}, "partySize", "up to 20"),
    ({"partySize": 10_000}, "partySize", "less"),
    ({"partySize": "4"}, "partySize", "integer"),
    ({"partySize": True}, "partySize", "integer"),
    ({"customerId": 2**70}, "customerId", ""),
    ({"note": "x" * 501}, "note", "500"),
    ({"note": "bell\u0007"}, "note", "control"),
    ({"note": "right-to-left \u202e"}, "note", "control"),
    ({"status": "ACCEPTED"}, "status", "permitted"),
    ({"customer_id": 5}, "customer_id", "permitted"),
]


async def test_a_reservation_is_created_with_its_event(anna: httpx.AsyncClient, pool: Pool) -> None:
    answer = await anna.post(
        "/customer/reservation/ask",
        json=ask_body(note="è il compleanno di Zoë"),
        headers={"X-Correlation-Id": "mine-1"},
    )
    assert answer.status_code == 200
    assert answer.headers["X-Correlation-Id"] == "mine-1"
    reservation = answer.json()
    assert reservation["status"] == "NOT_ACCEPTED"
    assert (reservation["version"], reservation["agencyId"]) == (1, 7)
    assert reservation["restaurantName"] == "Trattoria del Porto"

    (event,) = await events(pool, reservation["id"])
    assert (event["event_type"], event["aggregate_version"], event["status"]) == ("RESERVATION_REQUESTED", 1, "PENDING")
    assert event["headers"]["correlation_id"] == "mine-1"
    assert event["created_at"] == datetime.fromisoformat(reservation["updatedAt"])
    data = ReservationData.model_validate(event["payload"])
    assert (data.reservation_id, data.customer_name, data.agency_id) == (reservation["id"], "Anna Bianchi", 7)
    assert (data.restaurant_name, data.timezone) == ("Trattoria del Porto", "Europe/Rome")
    assert data.slot_time == datetime.fromisoformat(reservation["slotTime"])
    assert data.note == "è il compleanno di Zoë"
    assert data.actor is not None
    assert (data.actor.user_type, data.actor.user_id, data.actor.name) == ("CUSTOMER", 5, "Anna Bianchi")


async def test_the_payload_equals_the_example_of_the_contract(anna: httpx.AsyncClient, pool: Pool) -> None:
    example = json.loads(EXAMPLE.read_text())["data"]
    reservation = await ask(anna, note=example["note"])
    slot_time = datetime.fromisoformat(reservation["slotTime"]).astimezone(UTC)
    expected = example | {"reservationId": reservation["id"], "slotTime": f"{slot_time:%Y-%m-%dT%H:%M:%SZ}"}
    (event,) = await events(pool, reservation["id"])
    assert event["payload"] == expected


async def test_the_payload_has_null_for_a_missing_note_and_agency(person: Person, pool: Pool) -> None:
    customer = await pool.fetchval("INSERT INTO customer (name) VALUES ('Hugo') RETURNING id")
    reservation = await ask(person("CUSTOMER", customer), customerId=customer)
    (event,) = await events(pool, reservation["id"])
    example = json.loads(EXAMPLE.read_text())["data"]
    assert set(event["payload"]) == set(example)
    assert (event["payload"]["note"], event["payload"]["agencyId"]) == (None, None)


async def test_the_commit_is_announced(anna: httpx.AsyncClient, database: Database) -> None:
    received: list[str] = []
    connection = await connect(database.url, "test")
    try:
        await connection.add_listener(Level.EVENT, lambda *arguments: received.append(arguments[2]))
        await ask(anna)
        await eventually(lambda: received == [Level.EVENT])
    finally:
        await connection.close()


async def test_an_agency_user_reserves_for_a_customer_of_the_agency_and_is_the_actor(
    person: Person, pool: Pool
) -> None:
    reservation = await ask(person("AGENCY_USER", 70), customerId=6)
    (event,) = await events(pool, reservation["id"])
    assert event["payload"]["actor"] == {"userType": "AGENCY_USER", "userId": 70, "name": "Carmen Vidal"}
    assert event["payload"]["customerName"] == "Luís Pereira"


async def test_reserving_for_another_users_customer_is_404(person: Person, pool: Pool) -> None:
    await pool.execute("INSERT INTO agency (id, name) VALUES (8, 'Another')")
    await pool.execute("INSERT INTO agency_users (id, agency_id, name) VALUES (71, 8, 'Stranger')")
    stranger = await pool.fetchval("INSERT INTO customer (name) VALUES ('Hugo') RETURNING id")
    for client, customer in (
        (person("CUSTOMER", 5), 6),
        (person("AGENCY_USER", 70), stranger),
        (person("AGENCY_USER", 71), 5),
    ):
        answer = await client.post("/customer/reservation/ask", json=ask_body(customerId=customer))
        assert answer.status_code == 404
        assert answer.json()["errors"][0]["field"] == "customerId"
    assert await pool.fetchval("SELECT count(*) FROM reservation") == 0


async def test_a_time_without_an_offset_is_in_the_restaurants_timezone(anna: httpx.AsyncClient, pool: Pool) -> None:
    await pool.execute("UPDATE restaurant SET timezone = 'America/New_York' WHERE id = 11")
    written = f"{datetime.now(UTC).year + 1}-07-14T20:00:00"
    reservation = await ask(anna, restaurantId=11, slotTime=written)
    assert reservation["slotTime"] == f"{written}-04:00"
    same = await anna.post(
        "/customer/reservation/ask",
        json=ask_body(restaurantId=11, slotTime=written.replace("07-14T20", "07-15T00") + "Z"),
    )
    assert same.status_code == 409, "20:00 in New York is midnight in Greenwich"


async def test_an_invalid_field_is_named_with_its_reason(anna: httpx.AsyncClient, pool: Pool) -> None:
    for changed, field, why in WRONG:
        answer = await anna.post("/customer/reservation/ask", json=ask_body(**changed))
        assert answer.status_code == 422, (changed, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert [error["field"] for error in problem["errors"]] == [field], (changed, problem)
        assert why in problem["errors"][0]["message"], (changed, problem)
        assert problem["status"] == 422
        assert problem["correlationId"] == answer.headers["X-Correlation-Id"]
    assert await pool.fetchval("SELECT count(*) FROM reservation") == 0


async def test_a_closed_restaurant_is_named_with_the_reason(anna: httpx.AsyncClient, pool: Pool) -> None:
    day = datetime.now(UTC).date() + timedelta(days=30)
    await pool.execute("INSERT INTO restaurant_closure VALUES (10, $1, 'ferie')", day)
    answer = await anna.post("/customer/reservation/ask", json=ask_body())
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"field": "slotTime", "message": f"Trattoria del Porto is closed on {day} (ferie)."}
    ]
    await pool.execute("UPDATE restaurant SET accepts_reservations = false WHERE id = 11")
    answer = await anna.post("/customer/reservation/ask", json=ask_body(restaurantId=11))
    assert answer.json()["errors"][0]["field"] == "restaurantId"


async def test_the_same_customer_at_the_same_time_is_a_conflict_until_the_first_is_cancelled(
    anna: httpx.AsyncClient, pool: Pool
) -> None:
    first = await ask(anna)
    again = await anna.post("/customer/reservation/ask", json=ask_body(restaurantId=11))
    assert again.status_code == 409
    assert again.json()["type"] == "urn:tablebell:problem:double-booking"
    assert await pool.fetchval("SELECT count(*) FROM event_outbox") == 1
    assert (await anna.post(f"/customer/reservation/{first['id']}/cancel")).status_code == 200
    await ask(anna, restaurantId=11)
