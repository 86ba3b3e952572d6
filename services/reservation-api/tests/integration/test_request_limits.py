"""Limits on requests: bodies, numbers, pages and rate; unknown paths and methods; outages."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from tablebell.postgres import Pool
from tablebell.testing import Database, Servers

from .conftest import Person, ask, running, settings_for, slot, token

ASK = "/customer/reservation/ask"
JSON = {"Content-Type": "application/json"}


async def test_a_body_that_is_too_large_or_not_strict_json_is_refused(anna: httpx.AsyncClient, pool: Pool) -> None:
    start = b'{"customerId":5,"restaurantId":10,"partySize":4,"slotTime":"' + slot().encode() + b'"'
    for body, status in (
        (b"{", 400),
        (b"", 422),
        (b"null", 422),
        (b"[]", 422),
        (b'"text"', 422),
        (b"\xff\xfe", 400),
        (start + b',"note":"\xc3\x28"}', 400),
        (start + b',"note":"\\ud800"}', 400),
        (start + b',"note":NaN}', 400),
        (start.replace(b":4,", b":Infinity,") + b"}", 400),
        (start.replace(b":4,", b":0" + b"9" * 5000 + b",") + b"}", 400),
        (start.replace(b":4,", b":4e400.5,") + b"}", 400),
        (start.replace(b":4,", b":4.5,") + b"}", 422),
        (b"[" * 10_000, 400),
        (b'{"a":' * 2_000 + b"1" + b"}" * 2_000, 400),
        (b"[" * 900 + b"]" * 900, 422),
        (start + b',"note":"' + b"x" * 20_000 + b'"}', 413),
    ):
        answer = await anna.post(ASK, content=body, headers=JSON)
        assert answer.status_code == status, (body[:80], answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    assert await pool.fetchval("SELECT count(*) FROM reservation") == 0


@pytest.mark.parametrize(
    "number",
    [
        *("1" + "0" * 400, "-" + "9" * 5_000, "4e400", "-1E+999999999999", "4.5e400", "1e-400", "-0", "-0.0"),
        *("1" + "0" * 25, "9" * 309 + ".5", "1.7976931348623157e308", "0e999999", "[[[[1e400]]]]", '{"a":[-4e400]}'),
        "[" * 900 + "9" * 400 + "]" * 900,
    ],
)
async def test_a_number_out_of_range_is_refused_with_its_field(
    anna: httpx.AsyncClient, pool: Pool, number: str
) -> None:
    body = f'{{"customerId":5,"restaurantId":10,"slotTime":"{slot()}","note":"\\"1e400","partySize":{number}}}'
    answer = await anna.post(ASK, content=body.encode(), headers=JSON)
    assert answer.status_code == 422, answer.text
    assert [error["field"].partition(".")[0] for error in answer.json()["errors"]] == ["partySize"]
    assert await pool.fetchval("SELECT count(*) FROM reservation") == 0


async def test_a_huge_number_is_refused_in_every_position(anna: httpx.AsyncClient) -> None:
    huge = "9" * 400
    for path, method, body, field in (
        (ASK, "POST", f'{{"customerId":{huge},"restaurantId":10,"partySize":4,"slotTime":"{slot()}"}}', "customerId"),
        (ASK, "POST", f'{{"customerId":5,"restaurantId":10,"partySize":4,"slotTime":{huge}}}', "slotTime"),
        ("/me/preferences", "PUT", f'{{"channels":{{"SMS":{huge}}}}}', "channels.SMS"),
        ("/me/preferences", "PUT", '{"quietHours":{"from":1e999,"until":"07:00"}}', "quietHours.from"),
        ("/me/preferences", "PUT", f'{{"{huge}":{huge}}}', "9" * 100),
        ("/me/preferences", "PUT", huge, "body"),
    ):
        answer = await anna.request(method, path, content=body.encode(), headers=JSON)
        assert answer.status_code == 422, (body[:80], answer.text)
        assert answer.json()["errors"][0]["field"] == field


async def test_a_body_without_content_length_is_limited_too(anna: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    answer = await anna.post(ASK, content=endless(), headers=JSON)
    assert answer.status_code == 413


async def test_another_content_type_than_json_is_refused(anna: httpx.AsyncClient) -> None:
    body = b'{"customerId":5}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/xml", ""):
        answer = await anna.post(ASK, content=body, headers={"Content-Type": kind})
        assert answer.status_code == 415, kind
    packed = await anna.post(ASK, content=gzip.compress(body), headers={**JSON, "Content-Encoding": "gzip"})
    assert packed.status_code == 400


async def test_invalid_limits_and_cursors_are_refused(anna: httpx.AsyncClient, giulia: httpx.AsyncClient) -> None:
    for client, path in (
        (anna, "/customer/reservation"),
        (giulia, "/restaurant/reservation"),
        (anna, "/notifications"),
    ):
        for params in (
            {"limit": "101"},
            {"limit": "0"},
            {"cursor": "!"},
            {"cursor": "AAAA"},
            {"cursor": "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"},
            {"cursor": "A"},
        ):
            answer = await client.get(path, params=params)
            assert answer.status_code == 422, (path, params)
            assert answer.json()["errors"][0]["field"] in params


async def test_the_staffs_list_is_paged_and_filtered_by_day_and_status(person: Person) -> None:
    anna, luis, giulia = person("CUSTOMER", 5), person("CUSTOMER", 6), person("RESTAURANT_USER", 50)
    at_eight = (await ask(anna))["id"]
    also_at_eight = (await ask(luis, customerId=6))["id"]
    at_nine = (await ask(anna, slotTime=slot(hour=21)))["id"]
    await ask(anna, slotTime=slot(days=31))
    await giulia.post(f"/restaurant/reservation/{at_nine}/accept")
    day = slot()[:10]
    seen: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await giulia.get("/restaurant/reservation", params={"date": day, "limit": "1", **cursor})).json()
        seen += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == [at_eight, also_at_eight, at_nine]
    accepted = await giulia.get("/restaurant/reservation", params={"status": "ACCEPTED"})
    assert [item["id"] for item in accepted.json()["items"]] == [at_nine]
    own = await anna.get("/customer/reservation", params={"limit": "2"})
    assert own.json()["items"][1]["id"] == at_nine
    assert own.json()["nextCursor"]


async def test_the_rate_limit_is_per_user(database: Database) -> None:
    settings = settings_for(database, rate_limit_per_second=1, rate_limit_burst=5)
    async with running(settings) as api, httpx.AsyncClient(base_url=api) as http:

        async def look(user_id: int) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token('CUSTOMER', user_id)}"}
            return await http.get("/notifications/unread-count", headers=headers)

        answers = await asyncio.gather(*(look(5) for _ in range(12)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) >= 5
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
        assert refused[0].headers["content-type"] == "application/problem+json"
        assert (await look(6)).status_code == 200


async def test_unknown_paths_and_methods_return_problems(anna: httpx.AsyncClient) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("DELETE", "/me/preferences", 405),
        ("GET", "/customer/reservation/", 404),
        ("GET", "/customer/reservation/abc", 422),
        ("GET", f"/customer/reservation/{2**63}", 422),
        ("GET", "/customer/reservation/-1", 422),
    ):
        answer = await anna.request(method, path)
        assert answer.status_code == status, (method, path)
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.timeout(60)
async def test_a_stopped_database_is_503_and_the_service_recovers(servers: Servers, anna: httpx.AsyncClient) -> None:
    assert (await anna.get("/customer/reservation")).status_code == 200
    await servers.postgres("stop")
    try:
        stopped = await anna.get("/customer/reservation")
    finally:
        await servers.postgres("start")
    assert (stopped.status_code, stopped.headers["Retry-After"]) == (503, "1")
    assert stopped.headers["content-type"] == "application/problem+json"
    assert (await anna.get("/customer/reservation")).status_code == 200


async def test_requests_are_counted_by_route_template_and_status(person: Person, api: str) -> None:
    await ask(person("CUSTOMER", 5))
    await person("CUSTOMER", 5).get("/customer/reservation/4711")
    async with httpx.AsyncClient(base_url=api) as http:
        metrics = (await http.get("/metrics")).text
    labels = 'method="GET",route="/customer/reservation/{reservation_id}",status="404"'
    assert f"api_requests_total{{{labels}}}" in metrics
    assert 'api_reservations_total{event_type="RESERVATION_REQUESTED"}' in metrics
    assert "/4711" not in metrics


async def test_an_unknown_method_is_not_a_label_value(person: Person, api: str) -> None:
    anna = person("CUSTOMER", 5)
    for method in ("PROPFIND", "PURGE", "M-SEARCH"):
        assert (await anna.request(method, "/customer/reservation")).status_code == 405
    # uvicorn's parser refuses methods that HTTP does not define.
    assert (await anna.request("BREW", "/customer/reservation")).status_code == 400
    metrics = (await anna.get("/metrics")).text
    assert not [method for method in ("PROPFIND", "PURGE", "M-SEARCH", "BREW") if method in metrics]
    assert 'method="unknown",route="/customer/reservation",status="405"' in metrics
