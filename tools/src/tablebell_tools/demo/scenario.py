"""The demo: a customer requests a table, everyone is notified, two members of staff act on it and one wins."""

import asyncio
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx

from tablebell_local.errors import CommandError
from tablebell_tools.demo.screen import Screen
from tablebell_tools.demo.sockets import Sockets, open_sockets
from tablebell_tools.demo.steps import EventSteps
from tablebell_tools.tokens import TokenIssuer

CUSTOMER, STAFF, COLLEAGUE = "customer:5", "restaurant_user:50", "restaurant_user:51"
PEOPLE = (CUSTOMER, STAFF, COLLEAGUE, "restaurant_user:52", "admin_user:1", "admin_user:2", "agency_user:70")
TIMEOUT = 20.0


class DemoScenario:
    def __init__(self, urls: Mapping[str, str], tokens: TokenIssuer, screen: Screen) -> None:
        self._urls = urls
        self._tokens = tokens
        self._screen = screen
        self._problems: list[str] = []

    async def run(self) -> bool:
        """Whether everyone got every notification."""
        try:
            return await self._run()
        except (OSError, httpx.HTTPError, asyncpg.PostgresError) as error:
            raise CommandError(f"a process stopped during the demo ({error}): see `make status`") from error

    async def _run(self) -> bool:
        connection = await asyncpg.connect(self._urls["DATABASE_URL"])
        try:
            async with (
                httpx.AsyncClient(base_url=self._urls["API_URL"], timeout=10) as api,
                open_sockets(self._urls["WS_URL"], self._tokens, PEOPLE) as sockets,
            ):
                reservation = await self._request_table(api, connection, sockets)
                await self._act_on_request(api, connection, sockets, reservation)
        finally:
            await connection.close()
        self._screen.result(self._problems)
        return not self._problems

    async def _request_table(
        self, api: httpx.AsyncClient, connection: "asyncpg.Connection[asyncpg.Record]", sockets: Sockets
    ) -> int:
        self._screen.title("A customer requests a table")
        began, reservation = await self._ask(api)
        answered = datetime.now(UTC)
        self._screen.say(
            f"  POST /customer/reservation/ask → reservation {reservation['id']}, "
            f"{reservation['partySize']} people, {reservation['slotTime']}, answered in "
            f"{(answered - began).total_seconds() * 1000:.0f} ms"
        )
        people = {"restaurant": 3, "customer": 1, "admin": 2, "agency": 1}
        steps = EventSteps(connection, reservation["id"], "RESERVATION_REQUESTED", people)
        # The two admins share a Slack webhook, where the request is sent once.
        await self._follow(steps, sockets, began, sends=17, skipped=1, frames=7)
        await self._show_mail(steps)
        return int(reservation["id"])

    async def _act_on_request(
        self,
        api: httpx.AsyncClient,
        connection: "asyncpg.Connection[asyncpg.Record]",
        sockets: Sockets,
        reservation: int,
    ) -> None:
        self._screen.title("Two members of staff act on it; the first one wins")
        mine = await self._request_in_inbox(api, STAFF, reservation)
        theirs = await self._request_in_inbox(api, COLLEAGUE, reservation)
        began = datetime.now(UTC)
        won = await self._call(api, STAFF, f"/notifications/{mine}/actions", {"actionType": "CONFIRMED"})
        self._screen.say(f"  Giulia accepts: {won.status_code}")
        if undo_seconds := won.json().get("undoSeconds"):
            self._screen.say(
                f"  Her colleagues see it at once. The guest is told in {undo_seconds:g} s, if nobody undoes it."
            )
        lost = await self._call(api, COLLEAGUE, f"/notifications/{theirs}/actions", {"actionType": "REJECTED"})
        self._screen.say(f"  Marco rejects:  {lost.status_code} {lost.json().get('detail', '')}")
        if (won.status_code, lost.status_code) != (200, 409):
            self._problems.append(f"the first to act got {won.status_code}, the second {lost.status_code}")
        steps = EventSteps(connection, reservation, "RESERVATION_ACCEPTED", {"customer": 1, "agency": 1})
        await self._follow(steps, sockets, began, sends=4, frames=2)
        resolved = sockets.first_of("resolved")
        for received in resolved:
            frame = received.content
            self._screen.say(
                f"  on the screen of {received.person}: handled by {frame['actorName']} ({frame['action']})"
            )
        if len(resolved) < 3:
            self._problems.append(f"{len(resolved)} of 3 members of staff saw that it was handled")

    async def _follow(
        self, steps: EventSteps, sockets: Sockets, began: datetime, *, sends: int, frames: int, skipped: int = 0
    ) -> None:
        deadline = time.monotonic() + TIMEOUT
        while True:
            for step in await steps.fetch_new():
                self._screen.step(step, began)
            arrived = sockets.first_of("notification", steps.event_type)
            if (steps.is_complete(sends) and len(arrived) >= frames) or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        self._screen.say("")
        self._screen.deliveries(steps.sends, arrived, began)
        sent = sum(send.is_sent is True for send in steps.sends)
        expected = sends - skipped
        if sent != expected:
            self._problems.append(f"{steps.event_type}: {sent} of {expected} sends were accepted by their provider")
        if len(arrived) < frames:
            self._problems.append(f"{steps.event_type}: {len(arrived)} of {frames} browsers got a frame")

    async def _show_mail(self, steps: EventSteps) -> None:
        async with httpx.AsyncClient(base_url=self._urls["SANDBOX_URL"], timeout=5) as sandbox:
            answer = await sandbox.get("/api/messages", params={"channel": "EMAIL", "to": "giulia.ferri", "limit": 1})
        mails = answer.json()
        if mails:
            self._screen.say("")
            self._screen.mail(mails[-1])
        elif steps.sends:
            self._problems.append("the sandbox has no mail for Giulia Ferri")

    async def _ask(self, api: httpx.AsyncClient) -> tuple[datetime, dict[str, Any]]:
        for _ in range(5):
            day = datetime.now(UTC) + timedelta(days=random.randint(7, 300))  # noqa: S311 - any evening
            slot = day.replace(hour=19, minute=0, second=0, microsecond=0, tzinfo=None)
            slot += timedelta(minutes=random.randint(0, 12) * 15)  # noqa: S311
            body = {"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": slot.isoformat()}
            began = datetime.now(UTC)
            answer = await self._call(api, CUSTOMER, "/customer/reservation/ask", body)
            if answer.status_code == 200:
                return began, answer.json()
            if answer.status_code != 409:  # 409: an earlier demo took the same slot
                break
        raise CommandError(f"the request was refused: {answer.status_code} {answer.text}")

    async def _request_in_inbox(self, api: httpx.AsyncClient, person: str, reservation: int) -> int:
        headers = {"Authorization": f"Bearer {self._tokens.issue(person)}"}
        items = (await api.get("/notifications", headers=headers)).raise_for_status().json()["items"]
        return next(
            int(item["id"])
            for item in items
            if item["reservationId"] == reservation and item["eventType"] == "RESERVATION_REQUESTED"
        )

    async def _call(self, api: httpx.AsyncClient, person: str, path: str, body: dict[str, Any]) -> httpx.Response:
        token = self._tokens.issue(person)
        return await api.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
