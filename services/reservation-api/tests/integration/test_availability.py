"""Public reading: restaurants, and the times that they accept."""

from datetime import UTC, datetime, timedelta

import httpx

from tablebell.postgres import Pool
from tablebell.testing import Database

from .conftest import ask_body, running, settings_for


async def test_exactly_the_available_times_are_accepted_by_ask(api: str, anna: httpx.AsyncClient, pool: Pool) -> None:
    day = datetime.now(UTC).date() + timedelta(days=40)
    weekday, before = f"{day:%a}".lower(), f"{day - timedelta(days=1):%a}".lower()
    hours = {before: [["22:00", "01:00"]], weekday: [["12:00", "13:30"], ["23:00", "02:00"]]}
    await pool.execute("UPDATE restaurant SET opening_hours = $1 WHERE id = 10", hours)
    async with httpx.AsyncClient(base_url=api) as nobody:
        answer = await nobody.get("/restaurants/10/availability", params={"date": str(day), "partySize": 4, "step": 30})
    body = answer.json()
    shown = {datetime.fromisoformat(moment) for moment in body["times"]}
    assert body | {"times": []} == {
        "restaurantId": 10,
        "date": str(day),
        "partySize": 4,
        "timezone": "Europe/Rome",
        "times": [],
        "reason": None,
    }
    accepted = set()
    for number in range(48):
        written = f"{day}T{number // 2:02}:{number % 2 * 30:02}:00"
        answer = await anna.post("/customer/reservation/ask", json=ask_body(slotTime=written))
        if answer.status_code == 200:
            accepted.add(datetime.fromisoformat(answer.json()["slotTime"]))
    assert shown == accepted
    assert len(shown) == 2 + 3 + 2


async def test_the_reason_for_no_times_is_given(api: str, pool: Pool) -> None:
    day = datetime.now(UTC).date() + timedelta(days=40)
    await pool.execute("INSERT INTO restaurant_closure (restaurant_id, day, reason) VALUES (11, $1, 'ferie')", day)
    async with httpx.AsyncClient(base_url=api) as nobody:

        async def reason(**params: str) -> object:
            given = {"date": str(day), "partySize": "2"} | params
            answer = await nobody.get("/restaurants/11/availability", params=given)
            assert answer.json()["times"] == []
            return answer.json()["reason"]

        assert await reason() == f"Osteria della Luna is closed on {day} (ferie)."
        assert await reason(partySize="13") == "Osteria della Luna seats parties of up to 12."
        assert await reason(date="2020-01-01") == "The time is in the past."
        for path, params, status in (
            ("/restaurants/4711/availability", {"date": str(day), "partySize": "2"}, 404),
            ("/restaurants/11/availability", {"date": str(day)}, 422),
        ):
            assert (await nobody.get(path, params=params)).status_code == status


async def test_restaurants_are_public_without_their_internal_fields(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as nobody:
        found = (await nobody.get("/restaurants", params={"q": "porto"})).json()
        assert [one["id"] for one in found["items"]] == [10]
        one = (await nobody.get("/restaurants/10")).json()
        assert one == found["items"][0]
        assert (await nobody.get("/restaurants/4711")).status_code == 404
        first = (await nobody.get("/restaurants", params={"limit": 1})).json()
        second = (await nobody.get("/restaurants", params={"limit": 1, "cursor": first["nextCursor"]})).json()
    assert (one["name"], one["maxPartySize"], one["timezone"]) == ("Trattoria del Porto", 20, "Europe/Rome")
    assert not {"externalId", "replyTo", "senderName", "createdAt"} & set(one)
    assert [page["items"][0]["id"] for page in (first, second)] == [10, 11]


async def test_public_requests_are_limited_per_source(database: Database) -> None:
    settings = settings_for(database, rate_limit_per_second=0.01, rate_limit_burst=3)
    async with running(settings) as url, httpx.AsyncClient(base_url=url) as nobody:
        answers = [await nobody.get("/restaurants/10") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1
