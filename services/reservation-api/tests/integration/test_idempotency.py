"""Idempotency keys, and atomicity of a reservation and its event after a crash."""

import asyncio
import os
import random
import signal

import httpx
import pytest

from reservation_api import store
from reservation_api.idempotency import KEEP
from tablebell.people import UserType
from tablebell.postgres import Pool, connect
from tablebell.testing import Database

from .conftest import Person, ask_body, slot, token
from .processes import replicas

ASK = "/customer/reservation/ask"


async def counts(pool: Pool) -> tuple[int, int]:
    return (
        await pool.fetchval("SELECT count(*) FROM reservation"),
        await pool.fetchval("SELECT count(*) FROM event_outbox"),
    )


async def test_twenty_concurrent_requests_with_one_key_create_one_reservation(
    anna: httpx.AsyncClient, pool: Pool
) -> None:
    headers = {"Idempotency-Key": "twenty"}
    answers = await asyncio.gather(*(anna.post(ASK, json=ask_body(), headers=headers) for _ in range(20)))
    assert {answer.status_code for answer in answers} <= {200, 409}
    good = [answer for answer in answers if answer.status_code == 200]
    assert good
    assert len({answer.content for answer in good}) == 1
    assert await counts(pool) == (1, 1)
    later = await anna.post(ASK, json=ask_body(), headers=headers)
    assert later.content == good[0].content


async def test_another_body_is_refused_and_keys_are_per_user(person: Person, pool: Pool) -> None:
    anna, headers = person("CUSTOMER", 5), {"Idempotency-Key": "k"}
    assert (await anna.post(ASK, json=ask_body(), headers=headers)).status_code == 200
    other = await anna.post(ASK, json=ask_body(partySize=5), headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:tablebell:problem:key-reused")
    luis = await person("CUSTOMER", 6).post(ASK, json=ask_body(customerId=6), headers=headers)
    assert luis.status_code == 200
    assert await counts(pool) == (2, 2)


async def test_a_key_whose_first_request_is_still_running_is_409(
    anna: httpx.AsyncClient, database: Database, pool: Pool
) -> None:
    running = await connect(database.url, "test")
    try:
        await running.execute("BEGIN")
        await running.execute("INSERT INTO idempotency_key VALUES ('CUSTOMER', 5, 'busy', 'x')")
        answer = await anna.post(ASK, json=ask_body(), headers={"Idempotency-Key": "busy"})
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:tablebell:problem:still-running")
        assert await counts(pool) == (0, 0)
    finally:
        await running.close()
    assert (await anna.post(ASK, json=ask_body(), headers={"Idempotency-Key": "busy"})).status_code == 200


async def test_a_refusal_does_not_use_up_the_key(anna: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "again"}
    assert (await anna.post(ASK, json=ask_body(partySize=21), headers=headers)).status_code == 422
    assert (await anna.post(ASK, json=ask_body(partySize=20), headers=headers)).status_code == 200


async def test_a_key_expires_after_24_hours(anna: httpx.AsyncClient, pool: Pool) -> None:
    headers = {"Idempotency-Key": "old"}
    await anna.post(ASK, json=ask_body(), headers=headers)
    await pool.execute("UPDATE idempotency_key SET created_at = now() - interval '25 hours'")
    fresh = await anna.post(ASK, json=ask_body(slotTime=slot(hour=21)), headers=headers)
    assert fresh.status_code == 200
    assert await counts(pool) == (2, 2)
    await pool.execute("UPDATE idempotency_key SET created_at = now() - interval '25 hours'")
    await pool.execute("INSERT INTO idempotency_key VALUES ($1, 5, 'new', 'x')", UserType.CUSTOMER)
    async with pool.acquire() as connection:
        assert await store.purge_keys(connection, KEEP, 100) == 1
    assert [row["key"] for row in await pool.fetch("SELECT key FROM idempotency_key")] == ["new"]


@pytest.mark.timeout(60)
async def test_a_killed_process_leaves_no_reservation_without_event_and_no_event_without_reservation(
    database: Database, pool: Pool
) -> None:
    await pool.execute("INSERT INTO customer (id, name) SELECT id, 'Guest' FROM generate_series(5000, 24999) AS id")
    customers = iter(range(5000, 25000))
    for _ in range(2):
        async with replicas(database, 1) as (api,), httpx.AsyncClient(base_url=api.url, timeout=10) as http:

            async def keep_asking(http: httpx.AsyncClient = http) -> None:
                for customer in customers:
                    headers = {"Authorization": f"Bearer {token('CUSTOMER', customer)}"}
                    if customer % 2:
                        headers["Idempotency-Key"] = "mine"
                    await http.post(ASK, json=ask_body(customerId=customer), headers=headers)

            asked = [asyncio.create_task(keep_asking()) for _ in range(8)]
            await asyncio.sleep(random.uniform(0.3, 0.8))
            os.kill(api.process.pid, signal.SIGKILL)
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert any(isinstance(outcome, httpx.TransportError) for outcome in outcomes), (
            "the process was killed during requests"
        )
    reservations, written = await counts(pool)
    assert reservations == written > 0
    unpaired = await pool.fetchval(
        "SELECT count(*) FROM reservation AS r FULL JOIN event_outbox AS e ON e.aggregate_id = r.id"
        " WHERE r.id IS NULL OR e.id IS NULL"
    )
    assert unpaired == 0
    assert await pool.fetchval("SELECT count(*) FROM idempotency_key WHERE response IS NULL") == 0
