"""The inbox: order, pages, unread counts and shared read marks."""

import asyncio
import sys
from datetime import datetime, timedelta, tzinfo
from typing import Any

import httpx
import pytest

from reservation_api import store
from tablebell.events import NotificationData
from tablebell.people import UserType
from tablebell.postgres import Pool
from tablebell.testing.plans import plan_nodes

from .conftest import Person, ask, fan_out, slot


async def read_events(pool: Pool) -> list[NotificationData]:
    rows = await pool.fetch("SELECT payload FROM event_outbox WHERE event_type = 'NOTIFICATION_READ' ORDER BY id")
    return [NotificationData.model_validate(row["payload"]) for row in rows]


async def unread(client: httpx.AsyncClient) -> int:
    count: int = (await client.get("/notifications/unread-count")).json()["unread"]
    return count


async def test_pages_start_with_the_newest_and_are_not_shifted_by_new_notifications(person: Person, pool: Pool) -> None:
    anna, giulia = person("CUSTOMER", 5), person("RESTAURANT_USER", 50)
    reservation = (await ask(anna))["id"]
    expected = []
    for size in range(5, 12):
        await anna.patch(f"/customer/reservation/{reservation}", json={"partySize": size})
        expected.append((await fan_out(pool, reservation, event_type="RESERVATION_CHANGED"))[0])
    seen: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await giulia.get("/notifications", params={"limit": "3", **cursor})).json()
        seen += [item["id"] for item in page["items"]]
        if not cursor:
            await fan_out(pool, reservation)
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == expected[::-1]


async def test_a_notification_has_all_fields(person: Person, pool: Pool) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    mine, *_ = await fan_out(pool, reservation)
    (item,) = (await person("RESTAURANT_USER", 50).get("/notifications")).json()["items"]
    assert (item["id"], item["reservationId"], item["eventType"]) == (mine, reservation, "RESERVATION_REQUESTED")
    assert (item["shared"], item["isRead"], item["readByUserId"], item["resolution"]) == (True, False, None, None)
    assert item["actions"] == ["CONFIRMED", "REJECTED", "POSTPONED", "DISMISSED"]
    assert item["title"] == "Nuova prenotazione ricevuta"
    assert item["properties"] == {"partySize": 4}


async def test_reading_a_shared_notification_marks_it_as_read_for_all_staff(person: Person, pool: Pool) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    mine, *_ = await fan_out(pool, reservation)
    giulia, marco = person("RESTAURANT_USER", 50), person("RESTAURANT_USER", 51)
    assert (await unread(giulia), await unread(marco)) == (1, 1)
    read = await giulia.post(f"/notifications/{mine}/read")
    assert (read.json()["isRead"], read.json()["readByUserId"]) == (True, 50)
    assert (await unread(giulia), await unread(marco)) == (0, 0)
    (seen,) = (await marco.get("/notifications")).json()["items"]
    assert (seen["isRead"], seen["readByUserId"]) == (True, 50)
    (event,) = await read_events(pool)
    assert (event.shared, event.audience, event.actor.user_id) == (True, "RESTAURANT", 50)
    assert event.event_notification_id == read.json()["eventNotificationId"]

    await marco.post(f"/notifications/{seen['id']}/read")
    assert (await giulia.get("/notifications")).json()["items"][0]["readByUserId"] == 50, "the first reader is kept"
    assert len(await read_events(pool)) == 1, "reading again appends no event"


async def test_reading_a_personal_notification_affects_only_its_owner(person: Person, pool: Pool) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    mine, _ = await fan_out(pool, reservation, audience="ADMIN", people=("ADMIN_USER", [1, 2]))
    await person("ADMIN_USER", 1).post(f"/notifications/{mine}/read")
    assert (await unread(person("ADMIN_USER", 1)), await unread(person("ADMIN_USER", 2))) == (0, 1)
    (event,) = await read_events(pool)
    assert (event.shared, event.notification_ids) == (False, [mine])


async def test_read_all_marks_everything_as_read_and_appends_events_for_shared_notifications(
    person: Person, pool: Pool
) -> None:
    anna, giulia, marco = person("CUSTOMER", 5), person("RESTAURANT_USER", 50), person("RESTAURANT_USER", 51)
    reservation = (await ask(anna))["id"]
    await fan_out(pool, reservation)
    await anna.post(f"/customer/reservation/{reservation}/cancel")
    last, *_ = await fan_out(pool, reservation, event_type="RESERVATION_CANCELLED")
    assert (await giulia.get("/notifications", params={"unread": "true"})).json()["items"][0]["id"] == last
    assert (await giulia.post("/notifications/read-all")).json() == {"read": 2}
    assert (await giulia.get("/notifications", params={"unread": "true"})).json()["items"] == []
    assert (await unread(giulia), await unread(marco)) == (0, 1)
    shared, everything = await read_events(pool)
    assert (shared.shared, everything.shared) == (True, False)
    assert everything.up_to_id == last
    assert (await giulia.post("/notifications/read-all")).json() == {"read": 0}
    assert len(await read_events(pool)) == 2


async def test_read_events_have_the_databases_time_instead_of_the_hosts(
    person: Person, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(days=1)

    reservations = [(await ask(person("CUSTOMER", 5), slotTime=slot(days=days)))["id"] for days in (30, 31)]
    first, second = [(await fan_out(pool, reservation))[0] for reservation in reservations]
    for name, module in list(sys.modules.items()):
        if name.startswith("reservation_api.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Tomorrow)
    before = await pool.fetchval("SELECT clock_timestamp()")
    assert (await person("RESTAURANT_USER", 50).post(f"/notifications/{first}/read")).status_code == 200
    assert (await person("RESTAURANT_USER", 50).post("/notifications/read-all")).json() == {"read": 1}
    await person("RESTAURANT_USER", 50).post(f"/notifications/{second}/actions", json={"actionType": "CUSTOM"})
    after = await pool.fetchval("SELECT clock_timestamp()")
    rows = await pool.fetch(
        "SELECT event_type, created_at, available_at, payload FROM event_outbox WHERE aggregate_type = 'notification'"
    )
    assert {row["event_type"] for row in rows} == {"NOTIFICATION_READ", "NOTIFICATION_RESOLVED"}
    assert len(rows) == 4
    for row in rows:
        event_at = NotificationData.model_validate(row["payload"]).at
        assert all(before <= moment <= after for moment in (event_at, row["created_at"], row["available_at"])), row
    assert all(before <= row["read_at"] <= after for row in await pool.fetch("SELECT read_at FROM event_notification"))


async def test_unread_counts_are_right_after_concurrent_reads(person: Person, pool: Pool) -> None:
    anna, staff = person("CUSTOMER", 5), [person("RESTAURANT_USER", number) for number in (50, 51, 52)]
    reservation = (await ask(anna))["id"]
    rows = [await fan_out(pool, reservation)]
    for size in range(5, 10):
        await anna.patch(f"/customer/reservation/{reservation}", json={"partySize": size})
        rows.append(await fan_out(pool, reservation, event_type="RESERVATION_CHANGED"))
    single = [client.post(f"/notifications/{ids[number]}/read") for ids in rows for number, client in enumerate(staff)]
    answers = await asyncio.gather(*single, *(client.post("/notifications/read-all") for client in staff))
    assert {answer.status_code for answer in answers} == {200}
    assert [await unread(client) for client in staff] == [0, 0, 0]
    shared_events = [event.event_notification_id for event in await read_events(pool) if event.shared]
    assert len(shared_events) == len(set(shared_events)) == 6


async def test_a_page_of_a_large_inbox_reads_only_its_own_rows(pool: Pool) -> None:
    """It uses its index and reads no more rows than it returns, in a large table."""
    await pool.execute(
        "INSERT INTO restaurant_users (id, restaurant_id, name)"
        " SELECT n, 10, 'Staff' FROM generate_series(1000, 1499) AS n"
    )
    await pool.execute(
        """
        INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id,
                                        aggregate_version, shared_read)
        SELECT gen_random_uuid(), 'RESERVATION_REQUESTED', 'RESTAURANT', n, 10, 1, true
          FROM generate_series(1, 60000) AS n
        """
    )
    await pool.execute(
        """
        INSERT INTO notification (event_notification_id, user_id, user_type, title, body, is_read)
        SELECT id, CASE WHEN id % 3 = 0 THEN 50 ELSE 1000 + id % 500 END, 'RESTAURANT_USER', 'title', 'body',
               id % 100 <> 0
          FROM event_notification
        """
    )
    await pool.execute("VACUUM ANALYZE event_notification, notification_restaurant, restaurant_users")
    for query, rest, index, maximum in (
        ("list_notifications", f", {2**63 - 1}, 21", "inbox", 25),
        ("list_unread_notifications", f", {2**63 - 1}, 21", "unread", 25),
        ("count_notifications", "", "unread", 250),
    ):
        wanted = await partition_index(pool, index)
        for user in (50, 1007):
            nodes = await plan(pool, store.SQL[query], f"'RESTAURANT_USER', {user}{rest}")
            ran = [node for node in nodes if node["Actual Loops"]]
            assert "Seq Scan" not in {node["Node Type"] for node in ran}, (query, ran)
            assert wanted in {node.get("Index Name") for node in ran}, (query, user, ran)
            scans = [node for node in ran if "notification" in node.get("Relation Name", "")]
            assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 2 * maximum, (query, scans)
            assert sum(node.get("Rows Removed by Filter", 0) for node in scans) == 0, (query, scans)


async def test_the_open_requests_of_a_long_inbox_are_read_by_an_index(pool: Pool) -> None:
    """60,000 reservations of the restaurant, 17 of them without an answer."""
    await pool.execute(
        """
        INSERT INTO reservation (customer_id, restaurant_id, party_size, slot_time, status)
        SELECT 5, 10, 2, now() + n * interval '1 minute',
               CASE WHEN n % 3500 = 0 THEN 'NOT_ACCEPTED' ELSE 'REJECTED' END
          FROM generate_series(1, 60000) AS n
        """
    )
    await pool.execute(
        """
        INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id,
                                        aggregate_version, shared_read)
        SELECT gen_random_uuid(), 'RESERVATION_REQUESTED', 'RESTAURANT', id, 10, 1, true FROM reservation
        """
    )
    await pool.execute(
        "INSERT INTO notification (event_notification_id, user_id, user_type, title, body, is_read)"
        " SELECT id, 50, 'RESTAURANT_USER', 'title', 'body', true FROM event_notification"
    )
    await pool.execute("VACUUM ANALYZE reservation, event_notification, notification_restaurant, notification_action")
    for query, rest in (("list_open_notifications", f", {2**63 - 1}, 51"), ("count_notifications", "")):
        nodes = await plan(pool, store.SQL[query], f"'RESTAURANT_USER', 50{rest}")
        ran = [node for node in nodes if node["Actual Loops"]]
        assert "reservation_undecided" in {node.get("Index Name") for node in ran}, (query, ran)
        large = {"reservation", "event_notification", "notification_restaurant"}
        scans = [node for node in ran if node.get("Relation Name") in large]
        assert "Seq Scan" not in {node["Node Type"] for node in scans}, (query, scans)
        assert max(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 17, (query, scans)
    async with pool.acquire() as connection:
        assert len(await store.list_open_notifications(connection, UserType.RESTAURANT_USER, 50, 2**63 - 1, 51)) == 17
        assert (await store.count_notifications(connection, UserType.RESTAURANT_USER, 50))["open"] == 17


async def partition_index(pool: Pool, kind: str) -> str:
    """The name of the index's partition for staff."""
    name: str = await pool.fetchval(
        "SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_index ON indexrelid = inhrelid"
        " WHERE inhparent = $1::regclass AND indrelid = 'notification_restaurant'::regclass",
        f"notification_{kind}",
    )
    return name


async def plan(pool: Pool, query: str, arguments: str) -> list[dict[str, Any]]:
    """All nodes of the executed generic plan."""
    async with pool.acquire() as connection:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute("PREPARE measured AS " + query)
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE measured ({arguments})")
        await connection.execute("DEALLOCATE measured")
    return plan_nodes(text)
