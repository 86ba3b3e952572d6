"""The operators' routes: counts, dead rows, requeue and discard, undeliverable addresses, traces."""

import asyncio
from functools import partial

import asyncpg
import httpx
import pytest

from tablebell.outbox import Level
from tablebell.postgres import Pool, connect
from tablebell.testing import Database, eventually

from .conftest import Person, ask, fan_out, slot


@pytest.fixture
def admin(person: Person) -> httpx.AsyncClient:
    return person("ADMIN_USER", 1)


async def make_dead(pool: Pool) -> dict[str, list[int]]:
    """Make all rows of all three levels dead. Returns their ids by level."""
    dead = {
        Level.EVENT: "UPDATE event_outbox SET status = 'DEAD', retry_count = 5, last_error = 'nowhere' RETURNING id",
        Level.NOTIFICATION: (
            "UPDATE notification_outbox SET status = 'DEAD', retry_count = 5, last_error = 'no person' RETURNING id"
        ),
        Level.CHANNEL_SEND: (
            "UPDATE notification_channel_send SET is_sent = false, outcome = 'EXHAUSTED', attempt_count = 5,"
            " last_error = channel_type || ' timeout' RETURNING id"
        ),
    }
    return {level: sorted(row["id"] for row in await pool.fetch(statement)) for level, statement in dead.items()}


async def test_counts_have_rows_and_age_per_level_and_status(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    reservation = await ask(person("CUSTOMER", 5))
    await fan_out(pool, reservation["id"])
    await pool.execute("UPDATE event_outbox SET created_at = now() - interval '90 seconds'")
    await pool.execute(
        "UPDATE notification_outbox SET status = 'PUBLISHED', published_at = now()"
        " WHERE id = (SELECT min(id) FROM notification_outbox)"
    )
    counts = (await admin.get("/admin/outbox")).json()["counts"]
    assert {(one["level"], one["status"]): one["rows"] for one in counts} == {
        ("event_outbox", "PENDING"): 1,
        ("notification_outbox", "PENDING"): 2,
        ("notification_outbox", "PUBLISHED"): 1,
        ("notification_channel_send", "PENDING"): 9,
    }
    assert 90 <= counts[0]["oldestSeconds"] < 150
    assert next(one for one in counts if one["status"] == "PUBLISHED")["lastMinute"] == 1


async def test_dead_rows_of_all_levels_are_listed_in_pages(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    await fan_out(pool, reservation)
    dead = await make_dead(pool)
    seen: list[tuple[str, int]] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await admin.get("/admin/outbox/dead", params={"limit": 2, **cursor})).json()
        assert len(page["items"]) <= 2
        seen += [(item["level"], item["id"]) for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == [(level, number) for level, numbers in dead.items() for number in numbers]
    texts = (await admin.get("/admin/outbox/dead", params={"errorContains": "SMS timeout"})).json()["items"]
    assert {(item["subject"], item["attempts"]) for item in texts} == {("SMS", 5)}
    one_level = (await admin.get("/admin/outbox/dead", params={"level": "event_outbox"})).json()["items"]
    assert [item["lastError"] for item in one_level] == ["nowhere"]


async def test_a_dry_run_returns_the_rows_and_changes_nothing(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    await fan_out(pool, reservation)
    dead = await make_dead(pool)
    for act in ("requeue", "discard"):
        body = {"level": "notification_channel_send", "ids": dead[Level.CHANNEL_SEND], "dryRun": True}
        answer = (await admin.post(f"/admin/outbox/{act}", json=body)).json()
        assert (answer["ids"], answer["dryRun"], answer["more"]) == (dead[Level.CHANNEL_SEND], True, False)
    assert await pool.fetchval("SELECT count(*) FROM notification_channel_send WHERE outcome = 'EXHAUSTED'") == 9
    assert await pool.fetchval("SELECT count(*) FROM outbox_intervention") == 0


async def test_requeued_rows_are_open_again_announced_and_recorded(
    admin: httpx.AsyncClient, person: Person, database: Database, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    await fan_out(pool, reservation)
    dead = await make_dead(pool)
    received: list[str] = []
    connection = await connect(database.url, "test")
    try:
        for level in Level:
            await connection.add_listener(level, lambda *arguments: received.append(arguments[2]))
        for level, selection in (
            (Level.EVENT, {"ids": dead[Level.EVENT]}),
            (Level.NOTIFICATION, {"ids": dead[Level.NOTIFICATION][:2], "errorContains": "person"}),
            (Level.CHANNEL_SEND, {"errorContains": "SMS"}),
        ):
            answer = await admin.post("/admin/outbox/requeue", json={"level": level, **selection})
            assert answer.status_code == 200, answer.text
            await eventually(partial(received.count, level))
    finally:
        await connection.close()
    assert await pool.fetchval("SELECT count(*) FROM event_outbox WHERE status = 'PENDING' AND retry_count = 0") == 1
    assert await pool.fetchval("SELECT count(*) FROM notification_outbox WHERE status = 'PENDING'") == 2
    assert await pool.fetchval("SELECT count(*) FROM notification_channel_send WHERE is_sent IS NULL") == 3
    rows = await pool.fetch(
        "SELECT level, act, cardinality(row_ids), filter, actor_id FROM outbox_intervention ORDER BY id"
    )
    assert [tuple(row.values())[:3] for row in rows] == [
        ("event_outbox", "requeue", 1),
        ("notification_outbox", "requeue", 2),
        ("notification_channel_send", "requeue", 3),
    ]
    assert {row["actor_id"] for row in rows} == {1}
    assert rows[2]["filter"] == {"ids": None, "errorContains": "SMS"}


async def test_discarded_rows_cannot_be_requeued(admin: httpx.AsyncClient, person: Person, pool: Pool) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    await fan_out(pool, reservation)
    dead = await make_dead(pool)
    body = {"level": "event_outbox", "ids": dead[Level.EVENT]}
    assert (await admin.post("/admin/outbox/discard", json=body)).json()["ids"] == dead[Level.EVENT]
    assert (await admin.post("/admin/outbox/requeue", json=body)).json()["ids"] == []
    assert await pool.fetchval("SELECT status FROM event_outbox") == "DISCARDED"
    assert await pool.fetchval("SELECT count(*) FROM outbox_intervention") == 1, (
        "an intervention without effect is not recorded"
    )


async def test_a_dead_reminder_of_an_earlier_version_is_closed_instead_of_requeued(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    anna, giulia = person("CUSTOMER", 5), person("RESTAURANT_USER", 50)
    reservation = (await ask(anna))["id"]
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    dead = await pool.fetchval(
        "UPDATE event_outbox SET status = 'DEAD' WHERE schedule_key = 'reminder-2h' RETURNING id"
    )
    await anna.patch(f"/customer/reservation/{reservation}", json={"partySize": 5})
    await giulia.post(f"/restaurant/reservation/{reservation}/accept")
    valid = await pool.fetchval(
        "UPDATE event_outbox SET status = 'DEAD' WHERE schedule_key = 'reminder-24h' AND status = 'PENDING'"
        " RETURNING id"
    )
    body = {"level": "event_outbox", "ids": [dead, valid]}
    answer = (await admin.post("/admin/outbox/requeue", json=body)).json()
    assert answer["ids"] == [valid]
    assert answer["notRequeued"] == [{"id": dead, "reason": "the reservation has moved on"}]
    rows = await pool.fetch("SELECT status, last_error FROM event_outbox WHERE id = $1", dead)
    assert [tuple(row) for row in rows] == [("DISCARDED", "the reservation has moved on")]
    (recorded,) = await pool.fetch("SELECT row_ids, filter -> 'notRequeued' FROM outbox_intervention")
    assert tuple(recorded) == ([valid], [dead])
    cancelled = await pool.fetchval("UPDATE event_outbox SET status = 'DEAD' WHERE id = $1 RETURNING id", valid)
    await anna.post(f"/customer/reservation/{reservation}/cancel")
    answer = (await admin.post("/admin/outbox/requeue", json={"level": "event_outbox", "ids": [cancelled]})).json()
    assert (answer["ids"], [one["id"] for one in answer["notRequeued"]]) == ([], [cancelled])


async def test_a_dead_send_about_a_decided_reservation_is_withdrawn_instead_of_requeued(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    await fan_out(pool, reservation)
    sends = (await make_dead(pool))[Level.CHANNEL_SEND]
    await person("RESTAURANT_USER", 51).post(f"/restaurant/reservation/{reservation}/accept")
    body = {"level": "notification_channel_send", "errorContains": "timeout"}
    for dry_run in (True, False):
        answer = (await admin.post("/admin/outbox/requeue", json={**body, "dryRun": dry_run})).json()
        assert answer["ids"] == []
        assert answer["notRequeued"] == [
            {"id": number, "reason": "handled by Marco Riva (CONFIRMED)"} for number in sends
        ]
    rows = await pool.fetch("SELECT DISTINCT is_sent, outcome, last_error FROM notification_channel_send")
    assert [tuple(row) for row in rows] == [(False, "WITHDRAWN", "handled by Marco Riva (CONFIRMED)")]
    assert await pool.fetchval("SELECT filter -> 'notRequeued' FROM outbox_intervention") == sends
    again = (await admin.post("/admin/outbox/requeue", json=body)).json()
    assert (again["ids"], again["notRequeued"]) == ([], []), "the rows are no longer dead"


async def test_a_dead_send_of_a_dismissed_notification_is_not_requeued(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    ids = await fan_out(pool, reservation)
    sends = (await make_dead(pool))[Level.CHANNEL_SEND]
    await person("RESTAURANT_USER", 50).post(f"/notifications/{ids[0]}/actions", json={"actionType": "CUSTOM"})
    body = {"level": "notification_channel_send", "ids": sends}
    answer = (await admin.post("/admin/outbox/requeue", json=body)).json()
    assert {one["reason"] for one in answer["notRequeued"]} == {"handled by Giulia Ferri (CUSTOM)"}


async def test_requeue_waits_for_a_concurrent_decision(
    admin: httpx.AsyncClient, person: Person, database: Database, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    ids = await fan_out(pool, reservation)
    sends = (await make_dead(pool))[Level.CHANNEL_SEND]
    connection = await connect(database.url, "test")
    try:
        async with connection.transaction():
            # As a decision does: lock the shared notification, then write the action.
            await connection.execute("SELECT FROM event_notification FOR UPDATE")
            body = {"level": "notification_channel_send", "ids": sends}
            requeueing = asyncio.create_task(admin.post("/admin/outbox/requeue", json=body))
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            await eventually(partial(pool.fetchval, waiting))
            await connection.execute(
                "INSERT INTO notification_action (notification_id, reservation_id, reservation_version, actor_id,"
                " actor_type, action_type, first_to_act) VALUES ($1, $2, 1, 52, 'RESTAURANT_USER', 'CONFIRMED', true)",
                ids[2],
                reservation,
            )
        answer = (await requeueing).json()
    finally:
        await connection.close()
    assert (answer["ids"], len(answer["notRequeued"])) == ([], 9)


async def test_a_superseded_or_expired_dead_send_is_closed_instead_of_requeued(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    anna = person("CUSTOMER", 5)
    moved, expired, fresh = [(await ask(anna, slotTime=slot(days=days), customerId=5))["id"] for days in (30, 31, 32)]
    audiences = (("CUSTOMER", "CUSTOMER", 5), ("AGENCY", "AGENCY_USER", 70), ("ADMIN", "ADMIN_USER", 1))
    notifications = {
        (reservation, audience): (await fan_out(pool, reservation, audience=audience, people=(user_type, [user_id])))[0]
        for reservation in (moved, expired, fresh)
        for audience, user_type, user_id in audiences
    }
    await make_dead(pool)
    of_expired = [notifications[expired, audience] for audience, *_ in audiences]
    await pool.execute(
        "UPDATE notification_channel_send SET not_after = '2026-01-02 03:04Z' WHERE notification_id = ANY ($1)",
        of_expired,
    )
    await person("RESTAURANT_USER", 50).post(f"/restaurant/reservation/{moved}/accept")

    async def requeue() -> tuple[set[int], dict[int, str]]:
        """Requeue all. Returns the notifications with open sends, and the reasons for the others."""
        body = {"level": "notification_channel_send", "errorContains": "timeout"}
        answer = (await admin.post("/admin/outbox/requeue", json=body)).json()
        rows = await pool.fetch("SELECT id, notification_id FROM notification_channel_send")
        of = {row["id"]: row["notification_id"] for row in rows}
        return {of[number] for number in answer["ids"]}, {of[one["id"]]: one["reason"] for one in answer["notRequeued"]}

    open_again, closed = await requeue()
    assert closed == {
        notifications[moved, "CUSTOMER"]: "the reservation has moved on",
        notifications[moved, "AGENCY"]: "the reservation has moved on",
        **dict.fromkeys(of_expired, "of no use after 2026-01-02 03:04 UTC"),
    }
    # Admins are not notified of the acceptance, so the request is still the latest for them.
    assert open_again == {
        notifications[moved, "ADMIN"],
        *(notifications[fresh, audience] for audience, *_ in audiences),
    }
    outcomes = "SELECT DISTINCT outcome FROM notification_channel_send WHERE notification_id = ANY ($1)"
    assert [row["outcome"] for row in await pool.fetch(outcomes, of_expired)] == ["EXPIRED"]

    await anna.post(f"/customer/reservation/{moved}/cancel")
    await fan_out(pool, moved, event_type="RESERVATION_CANCELLED", audience="ADMIN", people=("ADMIN_USER", [1]))
    await pool.execute(
        "UPDATE notification_channel_send SET is_sent = false, outcome = 'UNDELIVERABLE', last_error = 'timeout'"
        " WHERE notification_id = $1",
        notifications[moved, "ADMIN"],
    )
    assert await requeue() == (set(), {notifications[moved, "ADMIN"]: "the reservation has moved on"})


async def test_an_invalid_selection_is_refused(admin: httpx.AsyncClient) -> None:
    for wrong in (
        {"level": "event_outbox"},
        {"level": "event_outbox", "ids": []},
        {"level": "event_outbox", "ids": list(range(1, 1002))},
        {"level": "pg_user", "ids": [1]},
        {"ids": [1]},
        {"level": "event_outbox", "ids": [1], "dryRun": "false"},
    ):
        assert (await admin.post("/admin/outbox/requeue", json=wrong)).status_code == 422, wrong


async def test_the_trace_has_events_notifications_attempts_and_actions(
    admin: httpx.AsyncClient, person: Person, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    ids = await fan_out(pool, reservation)
    await pool.execute(
        "INSERT INTO processed_event (event_id, listener) SELECT event_id, 'RESTAURANT_LISTENER' FROM event_outbox"
    )
    await pool.execute(
        "INSERT INTO channel_send_attempt (channel_send_id, channel_type, attempt, finished_at, outcome, detail)"
        " SELECT s.id, s.channel_type, attempt, now(), 'RETRY', '503'"
        " FROM notification_channel_send AS s, generate_series(1, 2) AS attempt WHERE s.channel_type = 'SMS'"
    )
    await person("RESTAURANT_USER", 51).post(f"/notifications/{ids[1]}/actions", json={"actionType": "CONFIRMED"})
    trace = (await admin.get(f"/admin/reservation/{reservation}/trace")).json()
    assert trace["reservation"]["status"] == "ACCEPTED"
    assert [(event["eventType"], event["version"]) for event in trace["events"]] == [
        ("RESERVATION_REQUESTED", 1),
        ("RESERVATION_ACCEPTED", 2),
        ("RESERVATION_REMINDER_DUE", 2),
        ("RESERVATION_REMINDER_DUE", 2),
        ("RESERVATION_VISIT_ENDED", 2),
    ]
    assert list(trace["events"][0]["processed"]) == ["RESTAURANT_LISTENER"]
    assert [one["userName"] for one in trace["notifications"]] == ["Giulia Ferri", "Marco Riva", "Sofia Costa"]
    sms = next(one for one in trace["notifications"][0]["channels"] if one["channel"] == "SMS")
    assert (sms["outcome"], sms["lastError"]) == ("WITHDRAWN", "handled by Marco Riva (CONFIRMED)")
    assert [(one["attempt"], one["detail"]) for one in sms["attempts"]] == [(1, "503"), (2, "503")]
    (action,) = trace["actions"]
    assert (action["actorName"], action["action"], action["firstToAct"]) == ("Marco Riva", "CONFIRMED", True)
    assert (await admin.get("/admin/reservation/4711/trace")).status_code == 404


async def test_reading_a_trace_is_recorded_and_the_service_cannot_change_the_record(
    person: Person, database: Database, pool: Pool
) -> None:
    reservation = (await ask(person("CUSTOMER", 5)))["id"]
    for admin in (1, 2, 1):
        assert (await person("ADMIN_USER", admin).get(f"/admin/reservation/{reservation}/trace")).status_code == 200
    await person("CUSTOMER", 5).get(f"/admin/reservation/{reservation}/trace")
    await person("ADMIN_USER", 1).get("/admin/reservation/4711/trace")
    rows = await pool.fetch("SELECT actor_id, subject, reservation_id FROM admin_read ORDER BY id")
    assert [tuple(row) for row in rows] == [(admin, "trace", reservation) for admin in (1, 2, 1)]
    service = await connect(database.url_of("reservation_api"), "test")
    try:
        for forbidden in ("UPDATE admin_read SET actor_id = 9", "DELETE FROM admin_read", "SELECT FROM admin_read"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await service.execute(forbidden)
    finally:
        await service.close()


async def mark(pool: Pool, *marks: tuple[str, int, str, str]) -> None:
    await pool.executemany(
        "INSERT INTO undeliverable_address (user_type, user_id, channel_type, address, reason)"
        " VALUES ($1, $2, $3, 'dead@mail.example', $4)",
        marks,
    )


async def test_undeliverable_addresses_are_listed_in_pages_and_filtered(admin: httpx.AsyncClient, pool: Pool) -> None:
    marks = [("CUSTOMER", number, "EMAIL", "550 5.1.1 no such user") for number in range(1, 6)]
    await mark(pool, *marks, ("ADMIN_USER", 1, "SMS", "21610 STOP"))
    seen: list[tuple[str, int, str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await admin.get("/admin/undeliverable-addresses", params={"limit": 2, **cursor})).json()
        seen += [(item["userType"], item["userId"], item["channel"]) for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert seen == [*(("CUSTOMER", number, "EMAIL") for number in range(1, 6)), ("ADMIN_USER", 1, "SMS")]
    for question in ({"reasonContains": "STOP"}, {"channel": "SMS"}):
        (only,) = (await admin.get("/admin/undeliverable-addresses", params=question)).json()["items"]
        assert (only["reason"], only["silences"]) == ("21610 STOP", True)


async def test_clearing_addresses_supports_a_dry_run_and_is_recorded(admin: httpx.AsyncClient, pool: Pool) -> None:
    await mark(
        pool,
        ("CUSTOMER", 5, "EMAIL", "550 relay not permitted"),
        ("CUSTOMER", 6, "EMAIL", "550 relay not permitted"),
        ("CUSTOMER", 6, "SMS", "21211 not a number"),
    )
    clear = partial(admin.post, "/admin/undeliverable-addresses/clear")
    tried = (await clear(json={"reasonContains": "relay", "dryRun": True})).json()
    assert [item["userId"] for item in tried["addresses"]] == [5, 6]
    assert await pool.fetchval("SELECT count(*) FROM undeliverable_address") == 3
    assert await pool.fetchval("SELECT count(*) FROM outbox_intervention") == 0

    done = (await clear(json={"reasonContains": "relay"})).json()
    assert (len(done["addresses"]), done["dryRun"], done["more"]) == (2, False, False)
    done = (await clear(json={"userType": "CUSTOMER", "userId": 6, "channel": "SMS"})).json()
    assert [item["channel"] for item in done["addresses"]] == ["SMS"]
    assert await pool.fetchval("SELECT count(*) FROM undeliverable_address") == 0
    first, second = await pool.fetch("SELECT * FROM outbox_intervention ORDER BY id")
    assert (first["level"], first["act"], first["actor_id"], len(first["row_ids"])) == (
        "undeliverable_address",
        "clear",
        1,
        2,
    )
    assert first["filter"] == {"reasonContains": "relay", "people": ["CUSTOMER:5", "CUSTOMER:6"]}
    assert second["filter"]["people"] == ["CUSTOMER:6"]


@pytest.mark.parametrize("body", [{}, {"channel": "EMAIL"}, {"userId": 5, "reasonContains": "x"}])
async def test_clearing_addresses_requires_a_person_or_a_reason(
    admin: httpx.AsyncClient, body: dict[str, object]
) -> None:
    assert (await admin.post("/admin/undeliverable-addresses/clear", json=body)).status_code in (400, 422)
