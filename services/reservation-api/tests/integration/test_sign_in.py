"""Sign-in by e-mail link: who gets a link, what it is good for, and that it tells nobody who is known."""

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tablebell.postgres import Pool
from tablebell.testing import Database

from .conftest import running, settings_for

GIULIA = "giulia@porto.example"
VERIFIER = "a-verifier-that-only-this-browser-has-0123456"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


@pytest.fixture
async def browser(api: str, pool: Pool) -> AsyncIterator[httpx.AsyncClient]:
    await pool.execute("UPDATE restaurant_users SET email = 'Giulia@Porto.example', locale = 'en' WHERE id = 50")
    async with httpx.AsyncClient(base_url=api) as http:
        yield http


async def ask(browser: httpx.AsyncClient, email: str = GIULIA, **more: Any) -> httpx.Response:
    answer = await browser.post("/sign-in", json={"email": email, **more})
    assert answer.status_code == 202, answer.text
    return answer


async def mailed_code(pool: Pool) -> str:
    message = await pool.fetchval("SELECT message FROM notification_channel_send ORDER BY id DESC LIMIT 1")
    (link,) = message["links"]
    found = re.fullmatch(r"https://tables\.example/staff#sign-in=([\w-]{43})", link["url"])
    assert found, link
    return found[1]


async def row(pool: Pool, query: str) -> tuple[Any, ...]:
    (only,) = await pool.fetch(query)
    return tuple(only)


async def exchange(browser: httpx.AsyncClient, code: str, **more: Any) -> httpx.Response:
    return await browser.post("/sign-in/exchange", json={"code": code, **more})


async def test_the_link_signs_the_person_in_once(browser: httpx.AsyncClient, pool: Pool) -> None:
    await ask(browser, "GIULIA@porto.example")
    code = await mailed_code(pool)
    answer = await exchange(browser, code)
    assert answer.status_code == 200, answer.text
    session = answer.json()["session"]
    assert (session["userType"], session["userId"]) == ("RESTAURANT_USER", 50)
    me = await browser.get("/me", headers={"Authorization": f"Bearer {session['accessToken']}"})
    assert (me.status_code, me.json()["userId"]) == (200, 50)
    again = await exchange(browser, code)
    assert (again.status_code, again.headers["content-type"]) == (410, "application/problem+json")


async def test_an_unknown_address_gets_the_same_answer_and_causes_the_same_rows(
    browser: httpx.AsyncClient, pool: Pool
) -> None:
    rows = "SELECT (SELECT count(*) FROM sign_in), (SELECT count(*) FROM notification_channel_send)"
    known = await ask(browser)
    assert await row(pool, rows) == (1, 1)
    unknown = await ask(browser, "nobody@porto.example")
    assert await row(pool, rows) == (2, 2)
    ignored = {"x-correlation-id", "date"}
    told = [
        (answer.content, {name: text for name, text in answer.headers.items() if name not in ignored})
        for answer in (known, unknown)
    ]
    assert told[0] == told[1]
    query = "SELECT recipient, message, outcome FROM notification_channel_send ORDER BY id DESC LIMIT 1"
    assert await row(pool, query) == (None, {}, "SKIPPED")


async def test_an_inactive_person_gets_no_link(browser: httpx.AsyncClient, pool: Pool) -> None:
    await pool.execute("UPDATE restaurant_users SET active = false WHERE id = 50")
    await ask(browser)
    assert await pool.fetchval("SELECT outcome FROM notification_channel_send") == "SKIPPED"


async def test_the_link_works_only_in_the_browser_that_asked(browser: httpx.AsyncClient, pool: Pool) -> None:
    await ask(browser, challenge=CHALLENGE)
    code = await mailed_code(pool)
    for other in ({}, {"verifier": VERIFIER[::-1]}):
        assert (await exchange(browser, code, **other)).status_code == 409
    assert (await exchange(browser, code, verifier=VERIFIER)).status_code == 200, "a wrong attempt does not use it up"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sign_in SET expires_at = now()",
        "UPDATE restaurant_users SET active = false WHERE id = 50",
        "UPDATE restaurant_users SET email = 'new@porto.example' WHERE id = 50",
    ],
    ids=["expired", "deactivated", "address changed"],
)
async def test_a_link_is_not_valid_any_more(browser: httpx.AsyncClient, pool: Pool, change: str) -> None:
    await ask(browser)
    code = await mailed_code(pool)
    await pool.execute(change)
    assert (await exchange(browser, code)).status_code == 410


async def test_a_link_is_valid_for_15_minutes(browser: httpx.AsyncClient, pool: Pool) -> None:
    await ask(browser)
    lifetime = await pool.fetchval("SELECT extract(epoch FROM expires_at - created_at) FROM sign_in")
    assert 890 < lifetime <= 900
    assert await pool.fetchval("SELECT not_after = expires_at FROM notification_channel_send, sign_in"), "the mail too"


async def test_one_person_with_several_roles_chooses(browser: httpx.AsyncClient, pool: Pool) -> None:
    await pool.execute("UPDATE customer SET email = $1 WHERE id = 5", GIULIA)
    await ask(browser)
    code = await mailed_code(pool)
    choices = (await exchange(browser, code)).json()["choices"]
    assert [(each["userType"], each["userId"]) for each in choices] == [("RESTAURANT_USER", 50), ("CUSTOMER", 5)]
    names = "SELECT r.name, u.name FROM restaurant_users u JOIN restaurant r ON r.id = restaurant_id WHERE u.id = 50"
    assert (choices[0]["at"], choices[0]["name"]) == await row(pool, names)
    stranger = {"userType": "ADMIN_USER", "userId": 1}
    assert (await exchange(browser, code, person=stranger)).status_code == 410, "only one of the choices"
    chosen = await exchange(browser, code, person={"userType": "CUSTOMER", "userId": 5})
    assert chosen.json()["session"]["userType"] == "CUSTOMER"


async def test_neither_the_code_nor_the_address_nor_a_refresh_token_is_in_the_database(
    browser: httpx.AsyncClient, pool: Pool
) -> None:
    await ask(browser)
    code = await mailed_code(pool)
    session = (await exchange(browser, code)).json()["session"]
    await pool.execute("UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT', recipient = NULL")
    kept = "".join(
        [
            str([dict(row) for row in await pool.fetch(f"SELECT * FROM {table}")])
            for table in ("sign_in", "sign_in_session", "notification_channel_send", "revocation")
        ]
    )
    secret = session["refreshToken"].partition(".")[2]
    for text in (code, GIULIA, secret, session["accessToken"]):
        assert text not in kept


async def test_more_links_than_the_limit_of_an_address_get_the_same_answer_and_no_mail(
    database: Database, pool: Pool
) -> None:
    await pool.execute("UPDATE restaurant_users SET email = $1 WHERE id = 50", GIULIA)
    async with (
        running(settings_for(database, sign_in_mails_per_hour=2)) as url,
        httpx.AsyncClient(base_url=url) as browser,
    ):
        for _ in range(4):
            await ask(browser)
        await ask(browser, "other@porto.example")
    count = "SELECT count(*) FROM notification_channel_send WHERE recipient "
    assert (await pool.fetchval(count + "IS NOT NULL"), await pool.fetchval(count + "IS NULL")) == (2, 1)


async def test_requests_of_one_source_are_limited(database: Database) -> None:
    async with (
        running(settings_for(database, sign_in_burst=3, sign_in_per_second=0.001)) as url,
        httpx.AsyncClient(base_url=url) as browser,
    ):
        codes = [(await browser.post("/sign-in", json={"email": f"a{n}@b.example"})).status_code for n in range(4)]
    assert codes == [202, 202, 202, 429]


@pytest.mark.parametrize("missing", [{"pages_url": None}], ids=["no address of the pages"])
async def test_without_its_settings_there_is_no_sign_in(database: Database, missing: dict[str, Any]) -> None:
    async with running(settings_for(database, **missing)) as url, httpx.AsyncClient(base_url=url) as browser:
        answer = await browser.post("/sign-in", json={"email": GIULIA})
    assert (answer.status_code, answer.json()["detail"]) == (404, "Sign-in by e-mail is not set up here.")
