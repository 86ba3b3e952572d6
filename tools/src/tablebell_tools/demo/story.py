"""The story that the demo tells: a customer asks for a table, everyone hears of it, a member of staff accepts."""

import asyncio
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx

from tablebell_local.failure import Failure
from tablebell_tools import tokens
from tablebell_tools.demo.journey import Journey
from tablebell_tools.demo.screen import Screen
from tablebell_tools.demo.sockets import Sockets, open_sockets

CUSTOMER, STAFF, COLLEAGUE = "customer:5", "restaurant_user:50", "restaurant_user:51"
PEOPLE = (CUSTOMER, STAFF, COLLEAGUE, "restaurant_user:52", "admin_user:1", "admin_user:2", "agency_user:70")
LONGEST_WAIT = 20.0


class Story:
    def __init__(self, where: Mapping[str, str], secret: str, screen: Screen) -> None:
        self._where = where
        self._secret = secret
        self._screen = screen
        self._problems: list[str] = []

    async def tell(self) -> bool:
        """True when everyone was told everything."""
        try:
            return await self._tell()
        except (OSError, httpx.HTTPError, asyncpg.PostgresError) as error:
            raise Failure(f"a part of the system went away during the demo ({error}): see `make status`") from error

    async def _tell(self) -> bool:
        connection = await asyncpg.connect(self._where["DATABASE_URL"])
        try:
            async with (
                httpx.AsyncClient(base_url=self._where["API_URL"], timeout=10) as api,
                open_sockets(self._where["WS_URL"], self._secret, PEOPLE) as sockets,
            ):
                reservation = await self._first_act(api, connection, sockets)
                await self._second_act(api, connection, sockets, reservation)
        finally:
            await connection.close()
        self._screen.verdict(self._problems)
        return not self._problems

    async def _first_act(
        self, api: httpx.AsyncClient, connection: "asyncpg.Connection[asyncpg.Record]", sockets: Sockets
    ) -> int:
        self._screen.title("A customer asks for a table")
        began, reservation = await self._ask(api)
        answered = datetime.now(UTC)
        self._screen.say(
            f"  POST /customer/reservation/ask → reservation {reservation['id']}, "
            f"{reservation['partySize']} people, {reservation['slotTime']}, answered in "
            f"{(answered - began).total_seconds() * 1000:.0f} ms"
        )
        people = {"restaurant": 3, "customer": 1, "admin": 2, "agency": 1}
        journey = Journey(connection, reservation["id"], "RESERVATION_REQUESTED", people)
        await self._follow(journey, sockets, began, sends=17, frames=7)
        await self._show_mail(journey)
        return int(reservation["id"])

    async def _second_act(
        self,
        api: httpx.AsyncClient,
        connection: "asyncpg.Connection[asyncpg.Record]",
        sockets: Sockets,
        reservation: int,
    ) -> None:
        self._screen.title("Two members of staff reach for it; the first to act wins")
        mine = await self._request_in_inbox(api, STAFF, reservation)
        theirs = await self._request_in_inbox(api, COLLEAGUE, reservation)
        began = datetime.now(UTC)
        won = await self._call(api, STAFF, f"/notifications/{mine}/actions", {"actionType": "CONFIRMED"})
        self._screen.say(f"  Giulia accepts: {won.status_code}")
        lost = await self._call(api, COLLEAGUE, f"/notifications/{theirs}/actions", {"actionType": "REJECTED"})
        self._screen.say(f"  Marco rejects:  {lost.status_code} {lost.json().get('detail', '')}")
        if (won.status_code, lost.status_code) != (200, 409):
            self._problems.append(f"the first to act got {won.status_code}, the second {lost.status_code}")
        journey = Journey(connection, reservation, "RESERVATION_ACCEPTED", {"customer": 1, "agency": 1})
        await self._follow(journey, sockets, began, sends=4, frames=2)
        resolved = sockets.of("resolved")
        for arrival in resolved:
            frame = arrival.frame
            self._screen.say(
                f"  on the screen of {arrival.person}: handled by {frame['actorName']} ({frame['action']})"
            )
        if len(resolved) < 3:
            self._problems.append(f"{len(resolved)} of 3 members of staff saw that it was handled")

    async def _follow(self, journey: Journey, sockets: Sockets, began: datetime, *, sends: int, frames: int) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        while True:
            for moment in await journey.look():
                self._screen.moment(moment, began)
            arrived = sockets.of("notification", journey.event_type)
            if (journey.is_over(sends) and len(arrived) >= frames) or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        self._screen.say("")
        self._screen.outcomes(journey.sends, arrived, began)
        sent = sum(send.is_sent is True for send in journey.sends)
        if sent < sends:
            self._problems.append(f"{journey.event_type}: {sent} of {sends} sends were taken by their provider")
        if len(arrived) < frames:
            self._problems.append(f"{journey.event_type}: {len(arrived)} of {frames} browsers were told")

    async def _show_mail(self, journey: Journey) -> None:
        async with httpx.AsyncClient(base_url=self._where["SANDBOX_URL"], timeout=5) as sandbox:
            answer = await sandbox.get("/api/messages", params={"channel": "EMAIL", "to": "giulia.ferri", "limit": 1})
        mails = answer.json()
        if mails:
            self._screen.say("")
            self._screen.mail(mails[-1])
        elif journey.sends:
            self._problems.append("the sandbox has no mail for Giulia Ferri")

    async def _ask(self, api: httpx.AsyncClient) -> tuple[datetime, dict[str, Any]]:
        for _ in range(5):
            day = datetime.now(UTC) + timedelta(days=random.randint(7, 300))  # noqa: S311 - any evening will do
            slot = day.replace(hour=19, minute=0, second=0, microsecond=0, tzinfo=None)
            slot += timedelta(minutes=random.randint(0, 12) * 15)  # noqa: S311
            body = {"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": slot.isoformat()}
            began = datetime.now(UTC)
            answer = await self._call(api, CUSTOMER, "/customer/reservation/ask", body)
            if answer.status_code == 200:
                return began, answer.json()
            if answer.status_code != 409:  # 409: the demo has run before and drew the same evening
                break
        raise Failure(f"the reservation was not taken: {answer.status_code} {answer.text}")

    async def _request_in_inbox(self, api: httpx.AsyncClient, person: str, reservation: int) -> int:
        headers = {"Authorization": f"Bearer {tokens.issue(person, self._secret)}"}
        items = (await api.get("/notifications", headers=headers)).raise_for_status().json()["items"]
        return next(
            int(item["id"])
            for item in items
            if item["reservationId"] == reservation and item["eventType"] == "RESERVATION_REQUESTED"
        )

    async def _call(self, api: httpx.AsyncClient, person: str, path: str, body: dict[str, Any]) -> httpx.Response:
        token = tokens.issue(person, self._secret)
        return await api.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
