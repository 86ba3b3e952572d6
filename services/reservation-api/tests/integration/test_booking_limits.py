"""Limits on requests and changes, and that a busy restaurant stays below the defaults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from reservation_api.settings import Settings
from tablebell.postgres import Pool, connect
from tablebell.testing import Database, eventually, free_port

from .conftest import ask_body, fan_out, running, settings_for, slot, token

ASK = "/customer/reservation/ask"


def default_limits(database: Database, **changed: Any) -> Settings:
    """Settings with the default limits."""
    names = ("open_requests_per_customer", "open_requests_per_restaurant", "requests_per_hour", "changes_per_hour")
    defaults = {name: Settings.model_fields[name].default for name in (*names, "table_gap_minutes")}
    return settings_for(database, **(defaults | changed))


@asynccontextmanager
async def client(
    database: Database, user_type: str = "CUSTOMER", user_id: int = 5, **changed: Any
) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {token(user_type, user_id)}"}
    settings = default_limits(database, port=free_port(), **changed)
    async with running(settings) as url, httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        yield http


async def test_concurrent_requests_cannot_exceed_the_limit_of_open_requests(database: Database, pool: Pool) -> None:
    async with client(database) as anna:
        bodies = [ask_body(slotTime=slot(days=days)) for days in range(30, 60)]
        answers = await asyncio.gather(*(anna.post(ASK, json=body) for body in bodies))
        refused = [answer for answer in answers if answer.status_code != 200]
        assert len(refused) == 20
        assert {answer.status_code for answer in refused} == {429}
        problem = refused[0].json()
        assert problem["type"] == "urn:tablebell:problem:limit-reached"
        assert "10 open requests" in problem["detail"]
        assert int(refused[0].headers["Retry-After"]) > 0
        assert await pool.fetchval("SELECT count(*) FROM reservation") == 10
        assert await pool.fetchval("SELECT count(*) FROM event_outbox") == 10
        # Requests by an agency count for the same customer.
        headers = {"Authorization": f"Bearer {token('AGENCY_USER', 70)}"}
        assert (await anna.post(ASK, json=ask_body(slotTime=slot(days=80)), headers=headers)).status_code == 429
        # A cancelled request no longer counts.
        open_ones = [answer.json()["id"] for answer in answers if answer.status_code == 200]
        assert (await anna.post(f"/customer/reservation/{open_ones[0]}/cancel")).status_code == 200
        assert (await anna.post(ASK, json=ask_body(slotTime=slot(days=80)))).status_code == 200
        metrics = (await anna.get("/metrics")).text
    assert 'api_limits_reached_total{limit="open_requests_per_customer"}' in metrics


async def test_repeated_requests_and_cancellations_are_limited_per_hour(database: Database, pool: Pool) -> None:
    async with client(database, requests_per_hour=3) as anna:
        for days in (30, 31, 32):
            reservation = (await anna.post(ASK, json=ask_body(slotTime=slot(days=days)))).json()["id"]
            assert (await anna.post(f"/customer/reservation/{reservation}/cancel")).status_code == 200
        refused = await anna.post(ASK, json=ask_body(slotTime=slot(days=33)))
        assert refused.status_code == 429
        assert 3_500 < int(refused.headers["Retry-After"]) <= 3_600
        await pool.execute(
            "UPDATE reservation SET created_at = created_at - interval '59 minutes'"
            " WHERE id = (SELECT min(id) FROM reservation)"
        )
        refused = await anna.post(ASK, json=ask_body(slotTime=slot(days=33)))
        assert 0 < int(refused.headers["Retry-After"]) <= 60
        await pool.execute("UPDATE reservation SET created_at = created_at - interval '1 hour' WHERE version = 2")
        assert (await anna.post(ASK, json=ask_body(slotTime=slot(days=33)))).status_code == 200


async def test_changes_are_limited_per_hour_and_cancellations_are_never_refused(database: Database, pool: Pool) -> None:
    async with client(database) as anna:
        first, second = [
            (await anna.post(ASK, json=ask_body(slotTime=slot(days=days)))).json()["id"] for days in (30, 31)
        ]
        changes = [
            anna.patch(f"/customer/reservation/{(first, second)[number % 2]}", json={"partySize": 5 + number // 2})
            for number in range(30)
        ]
        answers = await asyncio.gather(*changes)
        by_status = [answer.status_code for answer in answers]
        assert (by_status.count(200), by_status.count(429)) == (10, 20)
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert "10 times per hour" in refused.json()["detail"]
        assert 3_500 < int(refused.headers["Retry-After"]) <= 3_600
        assert await pool.fetchval("SELECT count(*) FROM event_outbox WHERE event_type = 'RESERVATION_CHANGED'") == 10
        for reservation in (first, second):
            assert (await anna.post(f"/customer/reservation/{reservation}/cancel")).status_code == 200


async def test_a_customer_cannot_have_two_reservations_within_two_hours(database: Database, pool: Pool) -> None:
    async with client(database) as anna:
        hours = ("19:00", "19:30", "20:00", "20:59")
        at_once = [ask_body(restaurantId=11, slotTime=f"{slot()[:10]}T{hour}:00") for hour in hours]
        answers = await asyncio.gather(*(anna.post(ASK, json=body) for body in at_once))
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        problem = next(answer.json() for answer in answers if answer.status_code == 409)
        assert problem["type"] == "urn:tablebell:problem:double-booking"
        assert problem["errors"][0]["field"] == "slotTime"
        assert "within 2 hours" in problem["detail"]
        taken = next(answer.json() for answer in answers if answer.status_code == 200)
        at = datetime.fromisoformat(taken["slotTime"])

        async def ask_at(moment: datetime) -> httpx.Response:
            return await anna.post(ASK, json=ask_body(restaurantId=11, slotTime=moment.isoformat()))

        after = await ask_at(at + timedelta(hours=2))
        assert after.status_code == 200
        assert (await ask_at(at - timedelta(hours=2))).status_code == 200
        # Changes and proposed times have the same limit. The reservation itself does not count.
        path = f"/customer/reservation/{after.json()['id']}"
        near = {"slotTime": (at + timedelta(hours=1)).isoformat()}
        assert (await anna.patch(path, json=near)).status_code == 409
        assert (await anna.patch(path, json={"slotTime": (at + timedelta(hours=3)).isoformat()})).status_code == 200
        paolo = {"Authorization": f"Bearer {token('RESTAURANT_USER', 60)}"}
        proposal = {"proposedTime": (at + timedelta(hours=1)).isoformat()}
        path = f"/restaurant/reservation/{after.json()['id']}/postpone"
        assert (await anna.post(path, json=proposal, headers=paolo)).status_code == 200
        (mine,) = await fan_out(
            pool, after.json()["id"], event_type="RESERVATION_POSTPONED", audience="CUSTOMER", people=("CUSTOMER", [5])
        )
        confirmed = await anna.post(f"/notifications/{mine}/actions", json={"actionType": "CONFIRMED"})
        assert (confirmed.status_code, confirmed.json()["errors"][0]["field"]) == (409, "actionType")
        # The limit is per customer.
        luis = {"Authorization": f"Bearer {token('CUSTOMER', 6)}"}
        body = ask_body(customerId=6, restaurantId=11, slotTime=at.isoformat())
        assert (await anna.post(ASK, json=body, headers=luis)).status_code == 200


async def test_a_repeated_request_with_the_same_key_is_counted_once(database: Database) -> None:
    async with client(database, requests_per_hour=1) as anna:
        body, headers = ask_body(), {"Idempotency-Key": "once"}
        first = await anna.post(ASK, json=body, headers=headers)
        again = await anna.post(ASK, json=body, headers=headers)
        assert (first.status_code, again.status_code) == (200, 200)
        assert first.json() == again.json()
        other = {"Idempotency-Key": "another"}
        assert (await anna.post(ASK, json=ask_body(slotTime=slot(days=40)), headers=other)).status_code == 429


async def test_open_requests_are_limited_per_restaurant(database: Database) -> None:
    async with client(database, open_requests_per_restaurant=2) as anna:
        for days in (30, 31):
            assert (await anna.post(ASK, json=ask_body(slotTime=slot(days=days)))).status_code == 200
        refused = await anna.post(ASK, json=ask_body(slotTime=slot(days=32)))
        assert refused.status_code == 429
        assert "The restaurant" in refused.json()["detail"]
        assert int(refused.headers["Retry-After"]) > 0
        assert (await anna.post(ASK, json=ask_body(restaurantId=11, slotTime=slot(days=32)))).status_code == 200


@pytest.mark.timeout(60)
async def test_a_busy_evening_stays_below_the_default_limits(database: Database, pool: Pool) -> None:
    """300 customers request the same evening before any decision."""
    await pool.execute("INSERT INTO customer (id, name) SELECT n, 'Guest ' || n FROM generate_series(2001, 2300) AS n")
    async with client(database) as http:

        async def ask(guest: int) -> int:
            headers = {"Authorization": f"Bearer {token('CUSTOMER', guest)}"}
            body = ask_body(customerId=guest, slotTime=f"{slot()[:10]}T20:{guest % 4 * 15:02}:00")
            return (await http.post(ASK, json=body, headers=headers)).status_code

        assert set(await asyncio.gather(*(ask(guest) for guest in range(2001, 2301)))) == {200}
        giulia = {"Authorization": f"Bearer {token('RESTAURANT_USER', 50)}"}
        undecided = await pool.fetch("SELECT id FROM reservation ORDER BY id")
        decisions = [
            http.post(f"/restaurant/reservation/{row['id']}/accept", headers=giulia) for row in undecided[:200]
        ]
        assert {answer.status_code for answer in await asyncio.gather(*decisions)} == {200}


async def test_the_limit_queries_use_indexes(database: Database, pool: Pool) -> None:
    """Also with many reservations of the restaurant and the customer."""
    await pool.execute("INSERT INTO customer (id, name) SELECT n, 'Guest ' || n FROM generate_series(2001, 2400) AS n")
    await pool.execute(
        """
        INSERT INTO reservation (customer_id, restaurant_id, party_size, slot_time, status)
        SELECT 2001 + n % 400, 10 + n % 2, 2, now() + n * interval '1 minute',
               CASE n % 50 WHEN 0 THEN 'NOT_ACCEPTED' ELSE 'ACCEPTED' END
          FROM generate_series(1, 40000) AS n
        """
    )
    await pool.execute("VACUUM ANALYZE reservation")
    plans: list[str] = []
    connection = await connect(database.url, "test")
    try:
        await connection.execute("LOAD 'auto_explain'")
        await connection.execute("SET auto_explain.log_min_duration = 0")
        await connection.execute("SET auto_explain.log_nested_statements = on")
        connection.add_log_listener(lambda _, message: plans.append(message.message))
        await connection.execute("SET client_min_messages = log")
        await connection.fetch(
            "SELECT * FROM"
            " reached_limit(2001, 10, 'CUSTOMER', 2001, NULL, '2020-01-01Z', '2 hours', 1000, 1000, 1000, 10)"
        )
        await eventually(lambda: len(plans) >= 6)
    finally:
        await connection.close()
    text = "\n".join(plans)
    for index in ("double_booking", "reservation_undecided", "reservation_customer", "notification_action_changes"):
        assert index in text, text
    assert "Seq Scan on reservation" not in text, text
