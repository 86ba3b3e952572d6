"""Requests tables and reads what the system stored and sent for them."""

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
from chaos.api_client import ApiClient
from chaos.checks import received_by_providers
from chaos.store import Connection

CUSTOMER = "customer:5"
STAFF = ("restaurant_user:50", "restaurant_user:51", "restaurant_user:52")
EVERYONE = (CUSTOMER, *STAFF, "admin_user:1", "admin_user:2", "agency_user:70")

_evenings = itertools.count(30)


class ReservationHarness:
    def __init__(self, api: ApiClient, connection: Connection, sandbox_url: str) -> None:
        self._api = api
        self._connection = connection
        self._sandbox_url = sandbox_url

    async def ask(self) -> int:
        """For customer 5 at restaurant 10, on another evening each time."""
        day = datetime.now(UTC).date() + timedelta(days=next(_evenings))
        body = {"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": f"{day}T20:00:00"}
        answer = await self._api.call(CUSTOMER, "POST", "/customer/reservation/ask", body)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    async def count(self, query: str, reservation: int) -> int:
        count: int = await self._connection.fetchval(query, reservation)
        return count

    async def sends(self, reservation: int, event_type: str = "RESERVATION_REQUESTED") -> list[asyncpg.Record]:
        return await self._connection.fetch(
            """
            SELECT s.id, s.channel_type, s.user_type, s.user_id, s.is_sent, s.outcome, s.last_error
              FROM event_notification AS en
              JOIN notification AS n ON n.event_notification_id = en.id
              JOIN notification_channel_send AS s ON s.notification_id = n.id
             WHERE en.reservation_id = $1 AND en.event_type = $2
            """,
            reservation,
            event_type,
        )

    async def is_sent(self, reservation: int, sends: int) -> bool:
        """Whether the reservation has this many sends, all finished."""
        rows = await self.sends(reservation)
        return len(rows) == sends and all(row["is_sent"] is not None for row in rows)

    async def copies(self, reservation: int) -> dict[int, int]:
        """How many times the provider received each send."""
        received = Counter(await received_by_providers(self._sandbox_url))
        rows = await self.sends(reservation)
        return {row["id"]: received[row["channel_type"], row["id"]] for row in rows}

    async def request_of(self, person: str, reservation: int) -> dict[str, Any]:
        """The request in a staff member's inbox."""
        return next(
            item
            for item in await self._api.inbox(person)
            if item["reservationId"] == reservation and item["eventType"] == "RESERVATION_REQUESTED"
        )
