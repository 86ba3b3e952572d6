"""Access control: every route, by every user type, for own objects, those of others and former ones; by people who are
inactive or do not exist; by read-only admins."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import httpx
import pytest
from starlette.routing import BaseRoute, Mount

from reservation_api.app import build_app
from reservation_api.idempotency import Idempotency
from tablebell.health import Health
from tablebell.lifecycle import Stop
from tablebell.postgres import Pool
from tablebell.testing import Database
from tablebell.wakeups import WakeupSender

from .conftest import INTERNAL_TOKEN, Person, fan_out, settings_for, slot, token

PEOPLE = {"CUSTOMER": 5, "RESTAURANT_USER": 50, "ADMIN_USER": 1, "AGENCY_USER": 70}
STRANGERS = {"CUSTOMER": 6, "RESTAURANT_USER": 60, "ADMIN_USER": 2, "AGENCY_USER": 71}

STAFF, ADMIN, AGENCY = {"RESTAURANT_USER"}, {"ADMIN_USER"}, {"AGENCY_USER"}
ASKERS, ANYONE = {"CUSTOMER", "AGENCY_USER"}, set(PEOPLE)

# Users who can move to another restaurant or agency.
MOVES = {
    "RESTAURANT_USER": "UPDATE restaurant_users SET restaurant_id = {0} WHERE id = 50",
    "AGENCY_USER": "UPDATE agency_users SET agency_id = {1} WHERE id = 70",
}

# The body of the route that takes no JSON.
CSV = {"text/csv": "userType,name\n"}
TABLES = {
    "CUSTOMER": "customer",
    "RESTAURANT_USER": "restaurant_users",
    "ADMIN_USER": "admin_users",
    "AGENCY_USER": "agency_users",
}
READ_ONLY_ADMIN = 3
NOBODY = 987_654

# Routes that need an older reservation in another state.
STATUSES = {
    "/restaurant/reservation/{reservation_id}/cancel": "ACCEPTED",
    "/restaurant/reservation/{reservation_id}/arrived": "ACCEPTED",
    "/restaurant/reservation/{reservation_id}/no-show": "ACCEPTED",
    "/restaurant/reservation/{reservation_id}/undo": "ARRIVED",
}
LONG_AGO = timedelta(days=-60)

SIGN_OUT = "/sign-out"
SELECTION = {"level": "event_outbox", "ids": [1]}
# What the paths of objects without an owner name.
FIXED = {"{restaurant_id}": "11", "{agency_id}": "8", "{user_type}": "CUSTOMER"}
# The people whom someone manages: theirs, and another's.
MANAGED = {"RESTAURANT_USER": (51, 60), "AGENCY_USER": (5, 1234)}
# The allowed user types, the body, and whether the route addresses an object with an owner.
MATRIX: dict[tuple[str, str], tuple[set[str], dict[str, Any] | None, bool]] = {
    ("POST", "/customer/reservation/ask"): (ASKERS, {"restaurantId": 10, "partySize": 2}, True),
    ("GET", "/customer/reservation"): (ASKERS, None, False),
    ("GET", "/customer/reservation/{reservation_id}"): (ASKERS, None, True),
    ("PATCH", "/customer/reservation/{reservation_id}"): (ASKERS, {"partySize": 3}, True),
    ("POST", "/customer/reservation/{reservation_id}/cancel"): (ASKERS, None, True),
    ("GET", "/restaurant/reservation"): (STAFF, None, False),
    ("POST", "/restaurant/reservation/{reservation_id}/accept"): (STAFF, None, True),
    ("POST", "/restaurant/reservation/{reservation_id}/reject"): (STAFF, None, True),
    ("POST", "/restaurant/reservation/{reservation_id}/postpone"): (STAFF, {"proposedTime": slot(hour=21)}, True),
    ("POST", "/restaurant/reservation/{reservation_id}/cancel"): (STAFF, {"reason": "No water"}, True),
    ("POST", "/restaurant/reservation/{reservation_id}/arrived"): (STAFF, None, True),
    ("POST", "/restaurant/reservation/{reservation_id}/no-show"): (STAFF, None, True),
    ("POST", "/restaurant/reservation/{reservation_id}/undo"): (STAFF, None, True),
    ("GET", "/notifications"): (ANYONE, None, False),
    ("GET", "/notifications/unread-count"): (ANYONE, None, False),
    ("POST", "/notifications/read-all"): (ANYONE, None, False),
    ("POST", "/notifications/{notification_id}/read"): (ANYONE, None, True),
    ("POST", "/notifications/{notification_id}/actions"): (ANYONE, {"actionType": "DISMISSED"}, True),
    ("GET", "/me"): (ANYONE, None, False),
    ("GET", "/me/preferences"): (ANYONE, None, False),
    ("PUT", "/me/preferences"): (ANYONE, {"channels": {"SMS": False}}, False),
    ("PATCH", "/me"): (ANYONE, {"locale": "en"}, False),
    ("GET", "/restaurant"): (STAFF, None, False),
    ("PATCH", "/restaurant"): (STAFF, {"maxPartySize": 12}, False),
    ("GET", "/restaurant/staff"): (STAFF, None, False),
    ("POST", "/restaurant/staff"): (STAFF, {"name": "New", "phone": "+39333"}, False),
    ("PATCH", "/restaurant/staff/{user_id}"): (STAFF, {"locale": "en"}, True),
    ("GET", "/agency/customers"): (AGENCY, None, False),
    ("POST", "/agency/customers"): (AGENCY, {"name": "New", "phone": "+39333"}, False),
    ("GET", "/agency/customers/{user_id}"): (AGENCY, None, True),
    ("PATCH", "/agency/customers/{user_id}"): (AGENCY, {"locale": "en"}, True),
    ("GET", "/admin/restaurants"): (ADMIN, None, False),
    ("POST", "/admin/restaurants"): (ADMIN, {"name": "New"}, False),
    ("GET", "/admin/restaurants/{restaurant_id}"): (ADMIN, None, False),
    ("PATCH", "/admin/restaurants/{restaurant_id}"): (ADMIN, {"locale": "en"}, False),
    ("GET", "/admin/agencies"): (ADMIN, None, False),
    ("POST", "/admin/agencies"): (ADMIN, {"name": "New"}, False),
    ("GET", "/admin/agencies/{agency_id}"): (ADMIN, None, False),
    ("PATCH", "/admin/agencies/{agency_id}"): (ADMIN, {"name": "Other"}, False),
    ("GET", "/admin/people/{user_type}"): (ADMIN, None, False),
    ("POST", "/admin/people/{user_type}"): (ADMIN, {"name": "New", "phone": "+39333"}, False),
    ("GET", "/admin/people/{user_type}/{user_id}"): (ADMIN, None, False),
    ("PATCH", "/admin/people/{user_type}/{user_id}"): (ADMIN, {"locale": "en"}, False),
    ("POST", "/admin/people/{user_type}/{user_id}/deactivate"): (ADMIN, None, False),
    ("POST", "/admin/people/{user_type}/{user_id}/reactivate"): (ADMIN, None, False),
    ("POST", "/admin/people/{user_type}/{user_id}/sign-out"): (ADMIN, None, False),
    ("GET", "/admin/changes"): (ADMIN, None, False),
    ("POST", "/admin/import"): (ADMIN, CSV, False),
    ("GET", "/admin/outbox"): (ADMIN, None, False),
    ("GET", "/admin/outbox/dead"): (ADMIN, None, False),
    ("POST", "/admin/outbox/requeue"): (ADMIN, SELECTION, False),
    ("POST", "/admin/outbox/discard"): (ADMIN, SELECTION, False),
    ("GET", "/admin/undeliverable-addresses"): (ADMIN, None, False),
    ("POST", "/admin/undeliverable-addresses/clear"): (ADMIN, {"reasonContains": "550"}, False),
    ("GET", "/admin/reservation/{reservation_id}/trace"): (ADMIN, None, False),
    # The last one, because it ends the token.
    ("POST", SIGN_OUT): (ANYONE, None, False),
}
PUBLIC = {
    ("GET", "/restaurants"),
    ("GET", "/restaurants/{restaurant_id}"),
    ("GET", "/restaurants/{restaurant_id}/availability"),
}
# Public too; each refuses an unknown code or token by itself (test_sign_in.py).
SIGN_IN = {("POST", "/sign-in"), ("POST", "/sign-in/exchange"), ("POST", "/sign-in/refresh")}
OPEN_TO_ALL = {
    *(path for _, path in PUBLIC | SIGN_IN),
    "/health/live",
    "/health/ready",
    "/metrics",
    "/docs",
    "/openapi.json",
    "/static-offline-docs",
    "/.well-known/jwks.json",
}
# For the other services, with their own token.
INTERNAL: dict[tuple[str, str], dict[str, Any] | None] = {
    ("GET", "/internal/revocations"): None,
    ("POST", "/internal/people/without-access"): {"people": []},
}


class World:
    """Creates objects with an owner. Every request needs a new one, because most actions work only once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._hours = count(1)

    async def reservation(
        self, *, own: bool, status: str = "NOT_ACCEPTED", ahead: timedelta = timedelta(days=60)
    ) -> int:
        customer, restaurant, agency = (5, 10, 7) if own else (6, 11, None)
        at = datetime.now(UTC) + ahead + timedelta(hours=next(self._hours))
        reservation: int = await self._pool.fetchval(
            """
            WITH made AS (
                INSERT INTO reservation (customer_id, restaurant_id, agency_id, party_size, slot_time, status)
                VALUES ($1, $2, $5, 2, $3, $4)
                RETURNING id
            )
            INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload)
            SELECT 'RESERVATION_REQUESTED', id, 1, '{}' FROM made
            RETURNING aggregate_id
            """,
            customer,
            restaurant,
            at,
            status,
            agency,
        )
        return reservation

    async def notification(self, user_type: str, *, own: bool) -> int:
        audience = user_type.removesuffix("_USER")
        owner = (PEOPLE if own else STRANGERS)[user_type]
        (made,) = await fan_out(
            self._pool, await self.reservation(own=own), audience=audience, people=(user_type, [owner])
        )
        return made

    async def request(
        self, path: str, body: dict[str, Any] | None, user_type: str, *, own: bool
    ) -> tuple[str, dict[str, Any] | None]:
        if path.endswith("/ask"):
            at = datetime.now(UTC).date() + timedelta(days=200 + next(self._hours))
            return path, {**(body or {}), "customerId": 5 if own else 1234, "slotTime": f"{at}T20:00:00"}
        for placeholder, value in FIXED.items():
            path = path.replace(placeholder, value)
        if "{user_id}" in path:
            mine, theirs = MANAGED.get(user_type, (1234, 1234))
            return path.replace("{user_id}", str(mine if own else theirs)), body
        if body is not None and "phone" in body:
            return path, {**body, "phone": f"{body['phone']}{next(self._hours):07}"}
        if "{reservation_id}" in path:
            state: dict[str, Any] = {"status": STATUSES[path], "ahead": LONG_AGO} if path in STATUSES else {}
            return path.replace("{reservation_id}", str(await self.reservation(own=own, **state))), body
        if "{notification_id}" in path:
            return path.replace("{notification_id}", str(await self.notification(user_type, own=own))), body
        return path, body


def content(body: dict[str, Any] | None) -> dict[str, Any]:
    if body is CSV:
        return {"content": CSV["text/csv"], "headers": {"Content-Type": "text/csv"}}
    return {"json": body}


@pytest.mark.timeout(120)
async def test_every_route_allows_only_its_user_types_and_owners(person: Person, pool: Pool) -> None:
    await pool.execute("INSERT INTO customer (id, name) VALUES (1234, 'Of no agency')")
    await pool.execute("INSERT INTO agency (id, name) VALUES (8, 'Another'); ")
    await pool.execute("INSERT INTO agency_users (id, agency_id, name) VALUES (71, 8, 'Stranger')")
    world, wrong = World(pool), []
    for (method, template), (allowed, sent, has_owner) in MATRIX.items():
        for user_type, user_id in PEOPLE.items():
            columns = ["own", "another's", "former"] if has_owner else ["own"]
            for column in columns:
                if column == "former" and user_type not in MOVES:
                    continue  # customers and admins cannot move
                path, body = await world.request(template, sent, user_type, own=column != "another's")
                if column == "former":
                    await pool.execute(MOVES[user_type].format(11, 8))
                answer = await person(user_type, user_id).request(method, path, **content(body))
                if column == "former":
                    await pool.execute(MOVES[user_type].format(10, 7))
                expected = {403} if user_type not in allowed else {200, 201, 204} if column == "own" else {404}
                if answer.status_code not in expected:
                    wrong.append((method, template, user_type, column, expected, answer.status_code, answer.text))
    assert wrong == []


@pytest.mark.timeout(120)
async def test_every_route_refuses_the_token_of_a_person_who_is_inactive_or_does_not_exist(
    person: Person, pool: Pool
) -> None:
    world, wrong = World(pool), []
    for (method, template), (_, sent, _) in MATRIX.items():
        for user_type, user_id in PEOPLE.items():
            path, body = await world.request(template, sent, user_type, own=True)
            await pool.execute(f"UPDATE {TABLES[user_type]} SET active = false WHERE id = $1", user_id)
            answers = {
                "inactive": await person(user_type, user_id).request(method, path, **content(body)),
                "unknown": await person(user_type, NOBODY).request(method, path, **content(body)),
            }
            await pool.execute(f"UPDATE {TABLES[user_type]} SET active = true WHERE id = $1", user_id)
            for column, answer in answers.items():
                if answer.status_code != 401 or "WWW-Authenticate" not in answer.headers:
                    wrong.append((method, template, user_type, column, answer.status_code, answer.text))
    assert wrong == []


async def test_a_read_only_admin_reads_what_admins_read_and_changes_nothing(person: Person, pool: Pool) -> None:
    await pool.execute("INSERT INTO admin_users (id, name, role) VALUES ($1, 'Auditor', 'READ_ONLY')", READ_ONLY_ADMIN)
    await pool.execute("INSERT INTO customer (id, name) VALUES (1234, 'Of no agency')")
    await pool.execute("INSERT INTO agency (id, name) VALUES (8, 'Another')")
    world, wrong = World(pool), []
    for (method, template), (allowed, sent, _) in MATRIX.items():
        path, body = await world.request(template, sent, "ADMIN_USER", own=True)
        answer = await person("ADMIN_USER", READ_ONLY_ADMIN).request(method, path, **content(body))
        expected = 200 if method == "GET" and "ADMIN_USER" in allowed else 204 if template == SIGN_OUT else 403
        if answer.status_code != expected:
            wrong.append((method, template, expected, answer.status_code, answer.text))
    assert wrong == []


async def test_internal_routes_accept_only_the_token_of_the_services(api: str) -> None:
    tokens = [token(user_type, user_id) for user_type, user_id in PEOPLE.items()]
    async with httpx.AsyncClient(base_url=api) as http:
        for (method, path), body in INTERNAL.items():
            for bearer in (*tokens, "x", INTERNAL_TOKEN[:-1], INTERNAL_TOKEN + "x"):
                answer = await http.request(method, path, json=body, headers={"Authorization": f"Bearer {bearer}"})
                assert answer.status_code == 401, (path, bearer)
            headers = {"Authorization": f"Bearer {INTERNAL_TOKEN}"}
            assert (await http.request(method, path, json=body, headers=headers)).status_code == 200, path


async def test_a_user_who_changed_restaurant_or_agency_loses_access_to_the_old_one(person: Person, pool: Pool) -> None:
    await pool.execute("INSERT INTO agency (id, name) VALUES (8, 'Another')")
    world = World(pool)
    for user_type, move in MOVES.items():
        client = person(user_type, PEOPLE[user_type])
        own = await world.notification(user_type, own=True)
        is_staff = user_type == "RESTAURANT_USER"
        assert (await client.get("/notifications/unread-count")).json() == {"unread": 1, "open": int(is_staff)}
        await pool.execute(move.format(11, 8))
        for params in ({}, {"unread": "true"}, {"open": "true"}):
            assert (await client.get("/notifications", params=params)).json()["items"] == []
        assert (await client.get("/notifications/unread-count")).json() == {"unread": 0, "open": 0}
        assert (await client.post("/notifications/read-all")).json() == {"read": 0}
        for body in ({"actionType": "DISMISSED"}, {"actionType": "REJECTED"}):
            assert (await client.post(f"/notifications/{own}/actions", json=body)).status_code == 404
        assert (await client.post(f"/notifications/{own}/read")).status_code == 404
        await pool.execute(move.format(10, 7))
        assert [item["id"] for item in (await client.get("/notifications")).json()["items"]] == [own]
    assert await pool.fetchval("SELECT count(*) FROM event_notification WHERE is_read") == 0
    assert await pool.fetchval("SELECT count(*) FROM notification WHERE is_read") == 0
    assert await pool.fetchval("SELECT count(*) FROM notification_action") == 0
    assert await pool.fetchval("SELECT count(*) FROM reservation WHERE version > 1") == 0


async def test_without_a_token_every_route_is_401_with_www_authenticate(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as nobody:
        for (method, template), (_, body, _) in MATRIX.items():
            path = re.sub(r"\{\w+_id\}", "1", template.replace("{user_type}", "CUSTOMER"))
            answer = await nobody.request(method, path, **content(body))
            assert answer.status_code == 401, (method, template)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"


async def test_public_routes_answer_without_a_token_and_with_an_invalid_one(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as nobody:
        for method, template in PUBLIC:
            path = template.replace("{restaurant_id}", "10")
            for headers in ({}, {"Authorization": "Bearer nonsense"}):
                params = {"date": slot()[:10], "partySize": "2"} if path.endswith("availability") else {}
                answer = await nobody.request(method, path, params=params, headers=headers)
                assert answer.status_code == 200, answer.text


async def test_another_users_reservation_and_a_missing_one_get_the_same_response(person: Person, pool: Pool) -> None:
    foreign = await World(pool).reservation(own=False)
    answers = [await person("CUSTOMER", 5).get(f"/customer/reservation/{number}") for number in (foreign, 4711)]
    shown = [{**answer.json(), "correlationId": ""} for answer in answers]
    assert shown[0] == shown[1]


async def test_lists_contain_only_own_items(person: Person, pool: Pool) -> None:
    world = World(pool)
    mine, theirs = await world.reservation(own=True), await world.reservation(own=False)
    own = await world.notification("RESTAURANT_USER", own=True)
    await world.notification("RESTAURANT_USER", own=False)

    async def ids(user_type: str, user_id: int, path: str) -> list[int]:
        items = (await person(user_type, user_id).get(path)).json()["items"]
        return [item["id"] for item in items]

    assert mine in await ids("CUSTOMER", 5, "/customer/reservation")
    assert theirs not in await ids("CUSTOMER", 5, "/customer/reservation")
    assert mine in await ids("RESTAURANT_USER", 50, "/restaurant/reservation")
    assert theirs not in await ids("RESTAURANT_USER", 50, "/restaurant/reservation")
    assert await ids("RESTAURANT_USER", 50, "/notifications") == [own]


async def test_no_route_is_missing_from_the_matrix(database: Database, pool: Pool) -> None:
    health = Health(Stop())
    app = build_app(settings_for(database), pool, WakeupSender(pool), Idempotency(pool), health)
    described = {(method.upper(), path) for path, item in app.openapi()["paths"].items() for method in item}
    assert described == set(MATRIX) | PUBLIC | SIGN_IN
    placed = {path for _, path in MATRIX} | {path for _, path in INTERNAL} | OPEN_TO_ALL
    assert set(paths(app.routes)) == placed


def paths(routes: list[BaseRoute]) -> Iterator[str]:
    """The paths of all routes, including undocumented ones."""
    for route in routes:
        inner = getattr(getattr(route, "original_router", None), "routes", None)
        if inner is not None and not isinstance(route, Mount):
            yield from paths(inner)
        else:
            yield route.path  # type: ignore[attr-defined]
