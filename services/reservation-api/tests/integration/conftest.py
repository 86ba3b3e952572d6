"""The service on a real socket, connected with its own database role, and HTTP clients for its users."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from reservation_api.app import build_app
from reservation_api.idempotency import Idempotency
from reservation_api.settings import Settings
from tablebell.health import Health
from tablebell.inbox import is_shared
from tablebell.lifecycle import Stop
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, eventually, free_port
from tablebell.testing import tokens as testing_tokens
from tablebell.wakeups import open_wakeup_sender
from tablebell.web import serve

INTERNAL_TOKEN = "the-token-of-the-other-services-in-tests"

Person = Callable[[str, int], httpx.AsyncClient]


def token(user_type: str, user_id: int, **claims: Any) -> str:
    return testing_tokens.token(f"{user_type}:{user_id}", seconds=3600, **claims)


def settings_for(database: Database, **changed: Any) -> Settings:
    given: dict[str, Any] = {
        "database_url": database.url_of("reservation_api"),
        "jwt_private_key_file": testing_tokens.PRIVATE_KEY_FILE,
        "jwt_audience": testing_tokens.AUDIENCE,
        "internal_api_token": INTERNAL_TOKEN,
        "host": "127.0.0.1",
        "port": free_port(),
        "rate_limit_per_second": 10_000,
        "rate_limit_burst": 10_000,
        "auth_failures_burst": 10_000,
        "pages_url": "https://tables.example/",
        "sign_in_burst": 10_000,
        # Disabled, because most tests make many requests as one customer. The tests of the limits set them.
        "open_requests_per_customer": 0,
        "open_requests_per_restaurant": 0,
        "requests_per_hour": 0,
        "changes_per_hour": 0,
        "table_gap_minutes": 0,
        # The guest is told of a decision at once. test_undo.py has the window.
        "undo_seconds": 0,
        # Practically off, so that changes of a restaurant or a person are visible at once.
        "restaurant_cache_seconds": 0.000001,
        "person_cache_seconds": 0.000001,
    }
    return Settings(**(given | changed))


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[str]:
    """Run the service in this event loop and yield its URL."""
    stop = Stop()
    async with (
        open_pool(settings.database_url, "reservation-api", settings.database_pool_size) as pool,
        open_wakeup_sender(pool) as wakeup_sender,
    ):
        app = build_app(settings, pool, wakeup_sender, Idempotency(pool), Health(stop))
        serving = asyncio.create_task(serve(app, settings.host, settings.port, stop, settings.http_limits))
        try:
            yield await answering(f"http://127.0.0.1:{settings.port}")
        finally:
            stop.request()
            await serving


async def answering(url: str) -> str:
    async with httpx.AsyncClient(base_url=url) as http:

        async def is_up() -> bool:
            try:
                return (await http.get("/health/ready")).status_code == 200
            except httpx.TransportError:
                return False

        probe: Callable[[], Awaitable[bool]] = is_up
        await eventually(probe, within=60, every=0.05)
    return url


@pytest.fixture
async def api(database: Database) -> AsyncIterator[str]:
    async with running(settings_for(database)) as url:
        yield url


@pytest.fixture
async def person(api: str) -> AsyncIterator[Person]:
    """`person("CUSTOMER", 5)` returns a client with that person's token."""
    async with AsyncExitStack() as clients:
        known: dict[tuple[str, int], httpx.AsyncClient] = {}

        def make(user_type: str, user_id: int) -> httpx.AsyncClient:
            if (user_type, user_id) not in known:
                headers = {"Authorization": f"Bearer {token(user_type, user_id)}"}
                client = httpx.AsyncClient(base_url=api, headers=headers, timeout=15)
                clients.push_async_callback(client.aclose)
                known[user_type, user_id] = client
            return known[user_type, user_id]

        yield make


@pytest.fixture
def anna(person: Person) -> httpx.AsyncClient:
    return person("CUSTOMER", 5)


@pytest.fixture
def giulia(person: Person) -> httpx.AsyncClient:
    return person("RESTAURANT_USER", 50)


def slot(days: int = 30, hour: int = 20) -> str:
    """A future time at which restaurant 10 is open."""
    day = datetime.now(UTC).date() + timedelta(days=days)
    return f"{day}T{hour:02}:00:00"


def ask_body(**changed: Any) -> dict[str, Any]:
    return {"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": slot()} | changed


async def ask(client: httpx.AsyncClient, **changed: Any) -> dict[str, Any]:
    answer = await client.post("/customer/reservation/ask", json=ask_body(**changed))
    assert answer.status_code == 200, answer.text
    reservation: dict[str, Any] = answer.json()
    return reservation


async def events(pool: Pool, reservation_id: int) -> list[dict[str, Any]]:
    """The unscheduled events of a reservation, in order."""
    rows = await pool.fetch(
        "SELECT * FROM event_outbox WHERE aggregate_type = 'reservation' AND aggregate_id = $1 AND schedule_key IS NULL"
        " ORDER BY aggregate_version",
        reservation_id,
    )
    return [dict(row) for row in rows]


async def fan_out(
    pool: Pool,
    reservation_id: int,
    *,
    event_type: str = "RESERVATION_REQUESTED",
    audience: str = "RESTAURANT",
    people: tuple[str, list[int]] = ("RESTAURANT_USER", [50, 51, 52]),
) -> list[int]:
    """Write what the fan-out would write for the newest such event. Returns the notification ids in order of people."""
    shared = is_shared(event_type, audience)
    event_notification = await pool.fetchval(
        """
        INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id,
                                        aggregate_version, properties, shared_read)
        SELECT event_id, event_type, $3, $1, 10, aggregate_version, '{"partySize": 4}', $4
          FROM event_outbox
         WHERE aggregate_type = 'reservation' AND aggregate_id = $1 AND event_type = $2
         ORDER BY id DESC
         LIMIT 1
        RETURNING id
        """,
        reservation_id,
        event_type,
        audience,
        shared,
    )
    rows = await pool.fetch(
        """
        INSERT INTO notification (event_notification_id, user_id, user_type, title, body)
        SELECT $1, user_id, $2, 'Nuova prenotazione ricevuta', 'Anna Bianchi, 4 persone'
          FROM unnest($3::bigint[]) WITH ORDINALITY AS people (user_id, place)
         ORDER BY place
        RETURNING id
        """,
        event_notification,
        *people,
    )
    ids = [row["id"] for row in rows]
    await pool.execute(
        """
        INSERT INTO notification_outbox (notification_id, notification_type) SELECT unnest($1::bigint[]), $2
        """,
        ids,
        audience,
    )
    await pool.execute(
        """
        INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id,
                                               recipient)
        SELECT id, channel, user_type, user_id, 10, 'somewhere'
          FROM notification, unnest(ARRAY['EMAIL', 'SMS', 'PUSH']) AS channel
         WHERE id = ANY ($1)
        """,
        ids,
    )
    return ids
