"""Notification preferences: defaults, saving and validation."""

from datetime import time
from typing import Any

import httpx

from tablebell.postgres import Pool

from .conftest import Person

PATH = "/me/preferences"


async def test_the_profile_says_who_you_are_and_where_you_work(person: Person) -> None:
    giulia = (await person("RESTAURANT_USER", 50).get("/me")).json()
    assert (giulia["name"], giulia["locale"], giulia["userType"], giulia["userId"]) == (
        "Giulia Ferri",
        "it",
        "RESTAURANT_USER",
        50,
    )
    assert giulia["role"] in {"MANAGER", "STAFF"}
    assert giulia["restaurant"] == {"id": 10, "name": "Trattoria del Porto", "timezone": "Europe/Rome"}
    anna = (await person("CUSTOMER", 5).get("/me")).json()
    assert (anna["name"], anna["role"], anna["restaurant"]) == ("Anna Bianchi", None, None)


async def test_the_defaults_are_empty(anna: httpx.AsyncClient) -> None:
    assert (await anna.get(PATH)).json() == {"channels": {}, "eventTypes": {}, "quietHours": None}


async def test_saved_preferences_are_returned_and_stored_as_the_fan_out_reads_them(person: Person, pool: Pool) -> None:
    wanted = {
        "channels": {"SMS": False, "WEBSOCKET": True},
        "eventTypes": {"RESERVATION_CHANGED": {"EMAIL": False}},
        "quietHours": {"from": "22:30", "until": "07:00"},
    }
    anna = person("CUSTOMER", 5)
    assert (await anna.put(PATH, json=wanted)).json() == wanted
    assert (await anna.get(PATH)).json() == wanted
    await pool.execute("INSERT INTO admin_users (id, name) VALUES (5, 'Same id')")
    assert (await person("ADMIN_USER", 5).get(PATH)).json()["channels"] == {}, "ids are per user type"
    row = await pool.fetchrow("SELECT * FROM notification_preference")
    assert row is not None
    assert (row["channels"], row["event_types"]) == (wanted["channels"], wanted["eventTypes"])
    assert (row["quiet_from"], row["quiet_until"]) == (time(22, 30), time(7, 0))

    assert (await anna.put(PATH, json={"channels": {"EMAIL": False}})).status_code == 200
    assert (await anna.get(PATH)).json() == {"channels": {"EMAIL": False}, "eventTypes": {}, "quietHours": None}


async def test_invalid_preferences_are_refused(anna: httpx.AsyncClient, pool: Pool) -> None:
    everything_wrong: list[Any] = [
        {"channels": {"FAX": False}},
        {"channels": {"SMS": "no"}},
        {"channels": {"SMS": 0}},
        {"eventTypes": {"RESERVATION_EATEN": {"SMS": False}}},
        {"eventTypes": {"NOTIFICATION_READ": {"SMS": False}}},
        {"quietHours": {"from": "22:30"}},
        {"quietHours": {"from": "22:30", "until": "22:30"}},
        {"quietHours": {"from": "25:00", "until": "07:00"}},
        {"quietHours": {"from": 3600, "until": "07:00"}},
        {"quietHours": {"from": "07:00", "until": "0700Z"}},
        {"loud": True},
        [],
    ]
    for wrong in everything_wrong:
        answer = await anna.put(PATH, json=wrong)
        assert answer.status_code == 422, wrong
        assert answer.json()["errors"], wrong
    assert await pool.fetchval("SELECT count(*) FROM notification_preference") == 0


async def test_a_token_of_an_unknown_user_is_401(person: Person, pool: Pool) -> None:
    assert (await person("CUSTOMER", 999).put(PATH, json={})).status_code == 401
    assert await pool.fetchval("SELECT count(*) FROM notification_preference") == 0
