"""Sessions: refresh tokens rotate, a copy ends the session, and a session ends with a sign-out or with its person."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import jwt
import pytest

from reservation_api.sign_in import store
from tablebell.postgres import Pool
from tablebell.testing import eventually

from .conftest import Person
from .test_sign_in import GIULIA, ask, exchange, mailed_code, row

Session = dict[str, Any]


@pytest.fixture
async def browser(api: str, pool: Pool) -> AsyncIterator[httpx.AsyncClient]:
    await pool.execute("UPDATE restaurant_users SET email = $1 WHERE id = 50", GIULIA)
    async with httpx.AsyncClient(base_url=api) as http:
        yield http


async def sign_in(browser: httpx.AsyncClient, pool: Pool) -> Session:
    await ask(browser)
    session: Session = (await exchange(browser, await mailed_code(pool))).json()["session"]
    return session


async def refresh(browser: httpx.AsyncClient, session: Session) -> httpx.Response:
    return await browser.post("/sign-in/refresh", json={"refreshToken": session["refreshToken"]})


async def is_valid(browser: httpx.AsyncClient, session: Session) -> bool:
    answer = await browser.get("/me", headers={"Authorization": f"Bearer {session['accessToken']}"})
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


async def pass_the_grace(pool: Pool) -> None:
    await pool.execute("UPDATE sign_in_session SET rotated_at = rotated_at - interval '31 seconds'")


async def test_an_access_token_is_es256_and_lives_15_minutes(browser: httpx.AsyncClient, pool: Pool) -> None:
    session = await sign_in(browser, pool)
    assert jwt.get_unverified_header(session["accessToken"])["alg"] == "ES256"
    claims = jwt.decode(session["accessToken"], options={"verify_signature": False})
    assert 899 <= claims["exp"] - claims["iat"] <= 900
    query = "SELECT id::text, extract(epoch FROM expires_at - now()) / 86400 FROM sign_in_session"
    session_id, days = await row(pool, query)
    assert session_id == claims["jti"]
    assert 29.9 < days <= 30


async def test_every_refresh_returns_the_next_token_and_prolongs_the_session(
    browser: httpx.AsyncClient, pool: Pool
) -> None:
    session = await sign_in(browser, pool)
    seen = {session["refreshToken"]}
    for _ in range(3):
        await pool.execute("UPDATE sign_in_session SET expires_at = now() + interval '1 day'")
        answer = await refresh(browser, session)
        assert answer.status_code == 200, answer.text
        session = answer.json()
        assert await is_valid(browser, session)
        seen.add(session["refreshToken"])
    assert len(seen) == 4
    assert await pool.fetchval("SELECT expires_at > now() + interval '29 days' FROM sign_in_session")


async def test_a_replaced_token_ends_the_session_and_its_access_tokens(browser: httpx.AsyncClient, pool: Pool) -> None:
    first = await sign_in(browser, pool)
    other = await sign_in(browser, pool)
    second = (await refresh(browser, first)).json()
    await pass_the_grace(pool)
    assert (await refresh(browser, first)).status_code == 401, "somebody has a copy"
    assert (await refresh(browser, second)).status_code == 401
    assert not await is_valid(browser, second)
    assert (await refresh(browser, other)).status_code == 200, "the person's other session goes on"


async def test_a_token_replaced_long_ago_ends_the_session_too(browser: httpx.AsyncClient, pool: Pool) -> None:
    first = await sign_in(browser, pool)
    second = (await refresh(browser, first)).json()
    third = (await refresh(browser, second)).json()
    assert (await refresh(browser, first)).status_code == 401
    assert (await refresh(browser, third)).status_code == 401


async def test_two_tabs_that_refresh_at_once_get_the_same_token(browser: httpx.AsyncClient, pool: Pool) -> None:
    session = await sign_in(browser, pool)
    answers = await asyncio.gather(*(refresh(browser, session) for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5
    (token,) = {answer.json()["refreshToken"] for answer in answers}
    assert (await refresh(browser, {"refreshToken": token})).status_code == 200


@pytest.mark.parametrize("everywhere", [False, True])
async def test_signing_out_ends_the_session_here_or_everywhere(
    browser: httpx.AsyncClient, pool: Pool, everywhere: bool
) -> None:
    here, there = await sign_in(browser, pool), await sign_in(browser, pool)
    headers = {"Authorization": f"Bearer {here['accessToken']}"}
    assert (await browser.post("/sign-out", json={"everywhere": everywhere}, headers=headers)).status_code == 204
    assert (await refresh(browser, here)).status_code == 401
    assert not await is_valid(browser, here)
    assert (await refresh(browser, there)).status_code == (401 if everywhere else 200)
    assert await is_valid(browser, there) is not everywhere


async def test_deactivating_a_person_ends_their_sessions_for_good(
    browser: httpx.AsyncClient, pool: Pool, person: Person
) -> None:
    session = await sign_in(browser, pool)
    admin = person("ADMIN_USER", 1)
    assert (await admin.post("/admin/people/RESTAURANT_USER/50/deactivate")).status_code == 200
    assert (await refresh(browser, session)).status_code == 401
    assert (await admin.post("/admin/people/RESTAURANT_USER/50/reactivate")).status_code == 200
    assert (await refresh(browser, session)).status_code == 401
    assert not await is_valid(browser, session)
    assert await pool.fetchval("SELECT count(*) FROM sign_in_session") == 0


async def test_a_sign_in_during_a_deactivation_waits_for_it_and_is_refused(
    browser: httpx.AsyncClient, pool: Pool
) -> None:
    """Otherwise a session could begin just after its person was deactivated."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("UPDATE restaurant_users SET active = false WHERE id = 50")
        await ask(browser)  # it does not see the deactivation yet
        exchanging = asyncio.create_task(exchange(browser, await mailed_code(pool)))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )

        async def is_waiting() -> bool:
            return exchanging.done() or await pool.fetchval(waiting) > 0

        await eventually(is_waiting, within=30, every=0.02)
    assert (await exchanging).status_code == 410


async def test_an_expired_or_invented_refresh_token_is_refused(browser: httpx.AsyncClient, pool: Pool) -> None:
    session = await sign_in(browser, pool)
    await pool.execute("UPDATE sign_in_session SET expires_at = now()")
    invented = {"refreshToken": "00000000-0000-4000-8000-000000000000.invented"}
    for each in (session, invented, {"refreshToken": "nothing-of-the-kind-at-all"}):
        answer = await refresh(browser, each)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")


async def test_old_requests_and_expired_sessions_are_purged(browser: httpx.AsyncClient, pool: Pool) -> None:
    await sign_in(browser, pool)
    await sign_in(browser, pool)
    await pool.execute(
        "UPDATE sign_in SET created_at = now() - interval '25 hours' WHERE id = (SELECT min(id) FROM sign_in)"
    )
    await pool.execute(
        "UPDATE sign_in_session SET expires_at = now() WHERE id = (SELECT id FROM sign_in_session LIMIT 1)"
    )
    assert await store.purge_sign_ins(pool, timedelta(days=1), 100) == 1
    assert await store.purge_sessions(pool, timedelta(0), 100) == 1
    for table in ("sign_in", "sign_in_session"):
        assert await pool.fetchval(f"SELECT count(*) FROM {table}") == 1
