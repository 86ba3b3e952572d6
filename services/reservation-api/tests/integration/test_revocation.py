"""A token ends with its person: deactivated, deleted and revoked people are refused within seconds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import asyncpg
import httpx
import pytest

from reservation_api import store
from reservation_api.access import revoke_all_tokens
from tablebell.people import UserType
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, eventually, plan

from .conftest import INTERNAL_TOKEN, running, settings_for, token

PATH = "/me/preferences"


async def answer(api: str, bearer: str) -> tuple[int, str]:
    async with httpx.AsyncClient(base_url=api) as http:
        answer = await http.get(PATH, headers={"Authorization": f"Bearer {bearer}"})
    return answer.status_code, answer.json().get("detail", "")


async def as_service(api: str, method: str, path: str, **options: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=api, headers={"Authorization": f"Bearer {INTERNAL_TOKEN}"}) as http:
        return await http.request(method, path, **options)  # type: ignore[arg-type]


@pytest.fixture
async def own_pool(database: Database) -> AsyncIterator[Pool]:
    """With the rights of the service."""
    async with open_pool(database.url_of("reservation_api"), "test", 2) as pool:
        yield pool


async def as_admin(api: str, path: str) -> int:
    async with httpx.AsyncClient(base_url=api, headers={"Authorization": f"Bearer {token('ADMIN_USER', 2)}"}) as http:
        return (await http.post(path)).status_code


async def test_a_deactivated_person_is_refused_and_the_old_tokens_stay_revoked(api: str) -> None:
    old = token("ADMIN_USER", 1)
    assert (await answer(api, old))[0] == 200
    assert await as_admin(api, "/admin/people/ADMIN_USER/1/deactivate") == 200
    assert await answer(api, old) == (401, "The token's user has been deactivated.")
    assert await as_admin(api, "/admin/people/ADMIN_USER/1/reactivate") == 200
    assert await answer(api, old) == (401, "The token has been revoked.")
    assert (await answer(api, token("ADMIN_USER", 1)))[0] == 200


async def test_an_admin_signs_a_person_out_everywhere_and_it_is_on_record(api: str, pool: Pool) -> None:
    old = token("RESTAURANT_USER", 50)
    assert await as_admin(api, "/admin/people/RESTAURANT_USER/50/sign-out") == 204
    assert await answer(api, old) == (401, "The token has been revoked.")
    assert (await answer(api, token("RESTAURANT_USER", 50)))[0] == 200
    (row,) = await pool.fetch("SELECT act, subject_id, actor_id FROM management_change")
    assert tuple(row) == ("SIGN_OUT", 50, 2)
    assert await as_admin(api, "/admin/people/RESTAURANT_USER/4711/sign-out") == 404


@pytest.mark.parametrize("user_type", list(UserType))
async def test_each_user_type_can_be_deactivated(api: str, pool: Pool, user_type: UserType) -> None:
    user_id = {"CUSTOMER": 5, "RESTAURANT_USER": 50, "ADMIN_USER": 1, "AGENCY_USER": 70}[user_type]
    assert await as_admin(api, f"/admin/people/{user_type}/{user_id}/deactivate") == 200
    assert (await answer(api, token(user_type, user_id)))[0] == 401
    rows = await pool.fetch("SELECT user_type, user_id, token_id FROM revocation")
    assert [tuple(row) for row in rows] == [(user_type, user_id, None)]


async def test_a_deactivation_that_is_rolled_back_revokes_nothing(api: str, pool: Pool) -> None:
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("UPDATE customer SET active = false WHERE id = 5")
        await transaction.rollback()
    assert (await answer(api, token("CUSTOMER", 5)))[0] == 200


async def test_a_deleted_person_is_refused(api: str, pool: Pool) -> None:
    bearer = token("ADMIN_USER", 4)
    assert await answer(api, bearer) == (401, "The token's user does not exist.")
    await pool.execute("INSERT INTO admin_users (id, name) VALUES (4, 'Short stay')")
    assert (await answer(api, bearer))[0] == 200
    await pool.execute("DELETE FROM admin_users WHERE id = 4")
    assert await answer(api, bearer) == (401, "The token's user does not exist.")
    assert await pool.fetchval("SELECT user_id FROM revocation WHERE user_type = 'ADMIN_USER'") == 4


async def test_signing_out_ends_the_token_and_the_others_stay_valid(api: str) -> None:
    used, other = token("CUSTOMER", 5), token("CUSTOMER", 5)
    await sign_out(api, used)
    assert await answer(api, used) == (401, "The token has been revoked.")
    assert (await answer(api, other))[0] == 200
    assert (await answer(api, token("CUSTOMER", 6)))[0] == 200


async def test_signing_out_everywhere_ends_all_tokens_and_new_ones_are_valid(api: str) -> None:
    used, other, without_iat = token("CUSTOMER", 5), token("CUSTOMER", 5), token("CUSTOMER", 5, iat=None)
    await sign_out(api, used, json={"everywhere": True})
    assert (await answer(api, used))[0] == (await answer(api, other))[0] == 401
    assert (await answer(api, without_iat))[0] == 401, "nobody knows when it was issued"
    assert (await answer(api, token("CUSTOMER", 5)))[0] == 200
    assert (await answer(api, token("CUSTOMER", 6)))[0] == 200


async def sign_out(api: str, bearer: str, **options: object) -> None:
    async with httpx.AsyncClient(base_url=api, headers={"Authorization": f"Bearer {bearer}"}) as http:
        answer = await http.post("/sign-out", **options)  # type: ignore[arg-type]
    assert answer.status_code == 204, answer.text


Change = Callable[[Pool], Awaitable[object]]


@pytest.mark.parametrize(
    "change",
    [
        lambda pool: pool.execute("UPDATE customer SET active = false WHERE id = 5"),
        lambda pool: revoke_all_tokens(pool, UserType.CUSTOMER, 5),
    ],
    ids=["deactivated", "revoked"],
)
async def test_a_cached_person_is_refused_within_5_seconds(database: Database, pool: Pool, change: Change) -> None:
    bearer = token("CUSTOMER", 5)
    async with running(settings_for(database, person_cache_seconds=3.0)) as api:
        assert (await answer(api, bearer))[0] == 200
        await change(pool)
        began = asyncio.get_running_loop().time()

        async def is_refused() -> bool:
            return (await answer(api, bearer))[0] == 401

        await eventually(is_refused, within=5, every=0.1)
        assert asyncio.get_running_loop().time() - began < 5


async def test_the_services_read_the_revocations_and_get_304_until_one_is_added(api: str, own_pool: Pool) -> None:
    await revoke_all_tokens(own_pool, UserType.CUSTOMER, 5)
    first = await as_service(api, "GET", "/internal/revocations")
    (listed,) = first.json()["revocations"]
    assert (listed["person"], listed["tokenId"]) == ("CUSTOMER:5", None)
    tag = {"Authorization": f"Bearer {INTERNAL_TOKEN}", "If-None-Match": first.headers["ETag"]}
    assert (await as_service(api, "GET", "/internal/revocations", headers=tag)).status_code == 304
    assert await as_admin(api, "/admin/people/RESTAURANT_USER/50/deactivate") == 200
    second = await as_service(api, "GET", "/internal/revocations", headers=tag)
    assert [each["person"] for each in second.json()["revocations"]] == ["CUSTOMER:5", "RESTAURANT_USER:50"]


async def test_the_services_learn_who_is_inactive_or_unknown(api: str) -> None:
    assert await as_admin(api, "/admin/people/RESTAURANT_USER/51/deactivate") == 200
    people = ["CUSTOMER:5", "CUSTOMER:4711", "RESTAURANT_USER:50", "RESTAURANT_USER:51", "ADMIN_USER:1", "NOBODY:1"]
    found = await as_service(api, "POST", "/internal/people/without-access", json={"people": people})
    assert sorted(found.json()["people"]) == ["CUSTOMER:4711", "NOBODY:1", "RESTAURANT_USER:51"]
    many = [f"RESTAURANT_USER:{10**17 + number}" for number in range(400)]
    assert (await as_service(api, "POST", "/internal/people/without-access", json={"people": many})).json() == {
        "people": many
    }
    for wrong in (["CUSTOMER"], ["CUSTOMER:x"], [*many, "CUSTOMER:5"]):
        refused = await as_service(api, "POST", "/internal/people/without-access", json={"people": wrong})
        assert refused.status_code == 422


async def test_the_lookup_of_a_person_uses_the_primary_key_of_one_table(pool: Pool) -> None:
    await pool.execute("INSERT INTO customer (name) SELECT 'Guest' FROM generate_series(1, 20000)")
    await pool.execute(
        "INSERT INTO revocation (user_type, user_id) SELECT 'CUSTOMER', n FROM generate_series(1, 9000) AS n"
    )
    await pool.execute("ANALYZE customer, revocation")
    nodes = await plan(pool, store.SQL["find_access"], "CUSTOMER", 5)
    scans = [node for node in nodes if "Scan" in node["Node Type"] and node.get("Actual Loops")]
    assert {node.get("Index Name") for node in scans} <= {"customer_pkey", "revocation_person"}
    assert sum(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in scans) <= 5


async def test_expired_revocations_are_purged(own_pool: Pool, pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO revocation (user_type, user_id, expires_at)"
        " VALUES ('CUSTOMER', 5, now() - interval '1 s'), ('CUSTOMER', 6, now() + interval '1 h')"
    )
    assert await store.purge_revocations(own_pool, timedelta(0), 100) == 1
    assert await pool.fetchval("SELECT array_agg(user_id) FROM revocation") == [6]


async def test_the_service_may_not_change_revocations(own_pool: Pool) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await own_pool.execute("UPDATE revocation SET expires_at = now()")
