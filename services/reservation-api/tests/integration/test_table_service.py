"""What staff do with an accepted table: cancel it, note who came, and undo that; and the list of a day."""

from datetime import UTC, datetime, timedelta

import httpx

from tablebell.events import ReservationData
from tablebell.postgres import Pool

from .conftest import Person, ask, events, slot


async def accepted(person: Person, pool: Pool, *, ahead: timedelta = timedelta(0)) -> int:
    """A table that was accepted earlier and whose time is now, or `ahead` of now. Its planned events are the API's."""
    reservation: int = (await ask(person("CUSTOMER", 5)))["id"]
    await person("RESTAURANT_USER", 50).post(f"/restaurant/reservation/{reservation}/accept")
    await pool.execute(
        "UPDATE reservation SET slot_time = $2 WHERE id = $1",
        reservation,
        datetime.now(UTC) - timedelta(seconds=1) + ahead,
    )
    return reservation


async def act(client: httpx.AsyncClient, reservation: int, act: str, **body: str) -> httpx.Response:
    return await client.post(f"/restaurant/reservation/{reservation}/{act}", json=body or None)


async def planned(pool: Pool, reservation: int) -> list[str]:
    rows = await pool.fetch(
        "SELECT schedule_key FROM event_outbox WHERE aggregate_id = $1 AND schedule_key IS NOT NULL"
        " AND aggregate_type = 'reservation' AND status = 'PENDING' ORDER BY available_at",
        reservation,
    )
    return [row["schedule_key"] for row in rows]


async def test_a_cancellation_by_staff_has_a_reason_and_ends_the_reminders(person: Person, pool: Pool) -> None:
    giulia, reservation = person("RESTAURANT_USER", 50), await accepted(person, pool, ahead=timedelta(days=20))
    for body in ({}, {"reason": ""}, {"reason": "x" * 201}, {"reason": "a\u202eb"}):
        assert (await giulia.post(f"/restaurant/reservation/{reservation}/cancel", json=body)).status_code == 422
    cancelled = await act(giulia, reservation, "cancel", reason="A pipe has burst.")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")
    event = (await events(pool, reservation))[-1]
    data = ReservationData.model_validate(event["payload"])
    assert (event["event_type"], data.reason) == ("RESERVATION_CANCELLED", "A pipe has burst.")
    assert data.actor is not None
    assert (data.actor.user_type, data.actor.user_id) == ("RESTAURANT_USER", 50)
    assert await planned(pool, reservation) == []
    assert (await act(giulia, reservation, "undo")).status_code == 409, "the guest has been told"


async def test_a_request_is_rejected_and_not_cancelled(person: Person) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    assert (await act(person("RESTAURANT_USER", 50), reservation, "cancel", reason="Full")).status_code == 409


async def test_guests_who_came_get_thanks_and_those_who_did_not_get_none(person: Person, pool: Pool) -> None:
    giulia = person("RESTAURANT_USER", 50)
    reservation = await accepted(person, pool)
    assert (await act(giulia, reservation, "arrived")).json()["status"] == "ARRIVED"
    assert await planned(pool, reservation) == ["visit-ended"]
    assert (await act(giulia, reservation, "no-show")).status_code == 409
    assert (await act(giulia, reservation, "undo")).json()["status"] == "ACCEPTED"
    assert await planned(pool, reservation) == ["visit-ended"]
    assert (await act(giulia, reservation, "no-show")).json()["status"] == "NO_SHOW"
    assert await planned(pool, reservation) == []
    assert (await act(giulia, reservation, "undo")).json()["status"] == "ACCEPTED"
    assert await planned(pool, reservation) == ["visit-ended"]
    assert [event["event_type"] for event in await events(pool, reservation)][2:] == [
        "RESERVATION_ARRIVED",
        "RESERVATION_REOPENED",
        "RESERVATION_NO_SHOW",
        "RESERVATION_REOPENED",
    ]
    actions = await pool.fetch("SELECT resulting_version FROM notification_action ORDER BY id")
    assert [row["resulting_version"] for row in actions] == [2, 3, 4, 5, 6]


async def test_before_its_time_a_table_is_neither_arrived_nor_missed(person: Person, pool: Pool) -> None:
    giulia, reservation = person("RESTAURANT_USER", 50), await accepted(person, pool, ahead=timedelta(hours=3))
    for early in ("arrived", "no-show"):
        refused = await act(giulia, reservation, early)
        assert (refused.status_code, "has not come yet" in refused.json()["detail"]) == (409, True)


async def test_the_day_list_has_the_phone_and_how_often_the_guest_came(person: Person, pool: Pool) -> None:
    giulia = person("RESTAURANT_USER", 50)
    for act_of_day in ("arrived", "no-show", "no-show"):
        assert (await act(giulia, await accepted(person, pool), act_of_day)).status_code == 200
    tonight = (await ask(person("CUSTOMER", 5), slotTime=slot(40)))["id"]
    other = (await ask(person("CUSTOMER", 6), customerId=6, slotTime=slot(40)))["id"]
    day = slot(40)[:10]

    async def found(**query: str) -> list[int]:
        page = (await giulia.get("/restaurant/reservation", params={"date": day, **query})).json()
        return [item["id"] for item in page["items"]]

    (item, _) = (await giulia.get("/restaurant/reservation", params={"date": day})).json()["items"]
    assert (item["id"], item["customerPhone"], item["visits"], item["noShows"]) == (tonight, "+393330000005", 1, 2)
    assert await found() == [tonight, other]
    assert await found(q="bianch") == [tonight]
    assert await found(q="PEREIRA") == [other]
    assert await found(q="333 0000 005") == [tonight]
    assert await found(q="+351") == [other]
    assert await found(q="%") == []
    assert await found(q="nobody") == []
    own = (await person("CUSTOMER", 6).get(f"/customer/reservation/{other}")).json()
    assert "customerPhone" not in own, "only staff see it"
