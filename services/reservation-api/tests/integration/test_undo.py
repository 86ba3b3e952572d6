"""The undo window: colleagues see a decision at once, the guest is told when it can no longer be undone."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tablebell.outbox import START, Level, OutboxQueue
from tablebell.postgres import Pool
from tablebell.testing import Database

from .conftest import Person, ask, fan_out, running, settings_for, slot, token

ALL_PARTITIONS = list(range(16))
ACTS: dict[str, dict[str, str] | None] = {"accept": None, "reject": None, "postpone": {"proposedTime": slot(hour=21)}}
EVENTS = {"accept": "RESERVATION_ACCEPTED", "reject": "RESERVATION_REJECTED", "postpone": "RESERVATION_POSTPONED"}
outbox = OutboxQueue(Level.EVENT)


@pytest.fixture
async def api(database: Database) -> AsyncIterator[str]:
    async with running(settings_for(database, undo_seconds=60)) as url:
        yield url


@pytest.fixture
async def marco(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """A colleague, whose requests go to another replica."""
    headers = {"Authorization": f"Bearer {token('RESTAURANT_USER', 51)}"}
    async with (
        running(settings_for(database, undo_seconds=60)) as url,
        httpx.AsyncClient(base_url=url, headers=headers) as client,
    ):
        yield client


async def act(client: httpx.AsyncClient, reservation: int, name: str) -> httpx.Response:
    return await client.post(f"/restaurant/reservation/{reservation}/{name}", json=ACTS.get(name))


async def publish(pool: Pool) -> list[tuple[int, str]]:
    """Claim and complete what is due, as the relay does. Returns versions and types."""
    batch = await outbox.claim(pool, ALL_PARTITIONS, limit=100, lease=timedelta(seconds=30), after=START)
    await outbox.complete_if_leased(pool, [row["id"] for row in batch.rows], batch.token)
    return [(row["aggregate_version"], row["event_type"]) for row in batch.rows]


async def close_window(pool: Pool) -> None:
    await pool.execute("UPDATE event_outbox SET available_at = clock_timestamp() WHERE schedule_key IS NULL")


async def reminders(pool: Pool) -> list[str]:
    query = "SELECT schedule_key FROM event_outbox WHERE schedule_key IS NOT NULL AND status = 'PENDING' ORDER BY id"
    return [row["schedule_key"] for row in await pool.fetch(query)]


@pytest.mark.parametrize("name", ACTS)
async def test_only_the_screens_of_the_staff_are_told_before_the_window_has_closed(
    name: str, anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    assert await publish(pool) == [(1, "RESERVATION_REQUESTED")]
    decided = await act(giulia, reservation, name)
    assert (decided.status_code, decided.json()["undoSeconds"]) == (200, 60)
    assert await publish(pool) == [(2, "RESERVATION_DECIDED")]
    assert await publish(pool) == []
    await close_window(pool)
    assert await publish(pool) == [(2, EVENTS[name])]
    late = await act(giulia, reservation, "undo")
    assert (late.status_code, late.json()["detail"]) == (
        409,
        "It is too late to undo this decision. The guest is being told.",
    )


@pytest.mark.parametrize("name", ACTS)
async def test_the_guest_is_never_told_of_a_decision_that_a_colleague_undid_at_another_replica(
    name: str, anna: httpx.AsyncClient, giulia: httpx.AsyncClient, marco: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    (hers, *_) = await fan_out(pool, reservation)
    action: dict[str, Any] = {"accept": {"actionType": "CONFIRMED"}, "reject": {"actionType": "REJECTED"}}.get(
        name, {"actionType": "POSTPONED", **(ACTS[name] or {})}
    )
    decided = await giulia.post(f"/notifications/{hers}/actions", json=action)
    assert (decided.status_code, decided.json()["undoSeconds"]) == (200, 60)
    undone = await act(marco, reservation, "undo")
    assert undone.status_code == 200
    assert (undone.json()["status"], undone.json()["version"], undone.json()["proposedTime"]) == (
        "NOT_ACCEPTED",
        3,
        None,
    )
    await close_window(pool)
    assert [kind for _, kind in await publish(pool)] == [
        "RESERVATION_REQUESTED",
        "RESERVATION_DECIDED",
        "RESERVATION_DECISION_UNDONE",
    ]
    assert await reminders(pool) == []
    row = await pool.fetchrow("SELECT status, last_error FROM event_outbox WHERE event_type = $1", EVENTS[name])
    assert row is not None
    assert tuple(row) == ("DISCARDED", "undone by Marco Riva")
    assert (await act(marco, reservation, "undo")).status_code == 409

    (_, his, *_) = await fan_out(pool, reservation, event_type="RESERVATION_DECISION_UNDONE")
    (open_now,) = (await marco.get("/notifications", params={"open": True})).json()["items"]
    assert (open_now["id"], "CONFIRMED" in open_now["actions"]) == (his, True)
    again = await marco.post(f"/notifications/{his}/actions", json={"actionType": "CONFIRMED"})
    assert again.status_code == 200
    await close_window(pool)
    assert await publish(pool) == [(4, "RESERVATION_DECIDED"), (4, "RESERVATION_ACCEPTED")]
    assert await reminders(pool) == ["reminder-24h", "reminder-2h", "visit-ended"]


async def test_of_an_undo_and_a_relay_exactly_one_has_the_event(person: Person, pool: Pool) -> None:
    giulia = person("RESTAURANT_USER", 50)
    made = [(await ask(person("CUSTOMER", 5), slotTime=slot(days=day)))["id"] for day in range(30, 50)]
    for reservation in made:
        await act(giulia, reservation, "accept")
    await publish(pool)
    # They become due one after the other while all of them are undone.
    await pool.execute(
        "UPDATE event_outbox SET available_at = clock_timestamp() + aggregate_id % 20 * interval '4 milliseconds'"
        " WHERE event_type = 'RESERVATION_ACCEPTED'"
    )

    async def relay() -> None:
        for _ in range(20):
            await publish(pool)

    undone, _ = await asyncio.gather(asyncio.gather(*(act(giulia, each, "undo") for each in made)), relay())
    await asyncio.sleep(0.1)
    await publish(pool)
    rows = await pool.fetch(
        "SELECT aggregate_id, status FROM event_outbox WHERE event_type = 'RESERVATION_ACCEPTED' ORDER BY aggregate_id"
    )
    statuses = {200: "DISCARDED", 409: "PUBLISHED"}
    assert [row["status"] for row in rows] == [statuses[answer.status_code] for answer in undone]


async def test_an_act_within_the_window_tells_the_guest_of_both_in_order(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    await publish(pool)
    await act(giulia, reservation, "accept")
    assert (await anna.post(f"/customer/reservation/{reservation}/cancel")).status_code == 200
    assert await publish(pool) == [
        (2, "RESERVATION_DECIDED"),
        (2, "RESERVATION_ACCEPTED"),
        (3, "RESERVATION_CANCELLED"),
    ]
    late = await act(giulia, reservation, "undo")
    assert (late.status_code, late.json()["handledBy"]["actorName"]) == (409, "Anna Bianchi")


async def test_no_reminder_comes_before_the_news_of_the_acceptance(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    soon = datetime.now(UTC) + timedelta(hours=2, seconds=40)
    await pool.execute("UPDATE reservation SET slot_time = $1", soon)
    await act(giulia, reservation, "accept")
    assert await reminders(pool) == ["visit-ended"]


async def test_a_rejection_stays_when_the_guest_has_another_table_at_that_time(
    anna: httpx.AsyncClient, giulia: httpx.AsyncClient, pool: Pool
) -> None:
    reservation = (await ask(anna))["id"]
    await act(giulia, reservation, "reject")
    await ask(anna)
    refused = await act(giulia, reservation, "undo")
    assert (refused.status_code, "another reservation at that time" in refused.json()["detail"]) == (409, True)
    await close_window(pool)
    assert (2, "RESERVATION_REJECTED") in await publish(pool)


async def test_without_a_window_the_guest_is_told_at_once(database: Database, pool: Pool) -> None:
    async with running(settings_for(database, undo_seconds=0)) as url, httpx.AsyncClient(base_url=url) as http:
        headers = {"Authorization": f"Bearer {token('CUSTOMER', 5)}"}
        body = {"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": slot()}
        asked = await http.post("/customer/reservation/ask", json=body, headers=headers)
        headers = {"Authorization": f"Bearer {token('RESTAURANT_USER', 50)}"}
        path = f"/restaurant/reservation/{asked.json()['id']}"
        decided = await http.post(f"{path}/accept", headers=headers)
        assert (decided.status_code, decided.json()["undoSeconds"]) == (200, None)
        assert await publish(pool) == [(1, "RESERVATION_REQUESTED"), (2, "RESERVATION_ACCEPTED")]
        assert (await http.post(f"{path}/undo", headers=headers)).status_code == 409
