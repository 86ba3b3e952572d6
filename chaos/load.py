"""The load: customers request tables at a steady rate, then staff and customers act on the reservations.

Requests and answers are recorded; the checks compare them with the database.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from chaos.api_client import ApiClient, NoAnswer
from chaos.people import People, Restaurant

FOLLOW_UPS = ("accept", "accept", "accept", "reject", "change", "postpone", "cancel", "leave")
MAX_DELAY = 3.0


@dataclass(slots=True)
class Ask:
    customer: int
    restaurant: Restaurant
    slot: datetime
    key: str
    reservation: int | None = None
    refusal: str | None = None

    @property
    def requester(self) -> str:
        return f"customer:{self.customer}"

    @property
    def body(self) -> dict[str, Any]:
        return {
            "customerId": self.customer,
            "restaurantId": self.restaurant.id,
            "partySize": 4,
            "slotTime": self.slot.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that the API answered with success."""

    reservation: int
    version: int
    event_type: str
    actor: str


class Load:
    def __init__(self, api: ApiClient, people: People, seed: int) -> None:
        self.asks: list[Ask] = []
        self.decisions: list[Decision] = []
        self.lost_races = 0
        self.problems: Counter[str] = Counter()
        self.over = asyncio.Event()
        """Set after the last request; answers and decisions may still be pending."""
        self.seconds = 0.0
        """How long the requests took: longer than requested if the machine is too slow for the rate."""
        self._api = api
        self._people = people
        self._seed = seed
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._first_slot = (datetime.now(UTC) + timedelta(days=30)).replace(minute=0, second=0, microsecond=0)

    @property
    def answered(self) -> int:
        return sum(ask.reservation is not None for ask in self.asks)

    async def run(self, rate: float, seconds: float) -> None:
        """Sends requests on schedule, answered or not. Returns when all follow-ups are done."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as requests:
            while len(self.asks) < int(rate * seconds):
                requests.create_task(self._request(self._next_ask(len(self.asks))))
                if (ahead := began + len(self.asks) / rate - loop.time()) > 0:
                    await asyncio.sleep(ahead)
            self.seconds = loop.time() - began
            self.over.set()

    def _next_ask(self, number: int) -> Ask:
        """No customer requests the same time twice, so both identify a request."""
        customers = self._people.customers
        slot = self._first_slot + timedelta(hours=3 * (number // len(customers)))
        ask = Ask(
            customer=customers[number % len(customers)],
            restaurant=self._random.choice(self._people.restaurants),
            slot=slot,
            key=f"chaos-{self._seed}-{number}",
        )
        self.asks.append(ask)
        return ask

    async def _request(self, ask: Ask) -> None:
        follow_up, delay = self._random.choice(FOLLOW_UPS), self._random.uniform(0, MAX_DELAY)
        try:
            answer = await self._api.call(ask.requester, "POST", "/customer/reservation/ask", ask.body, ask.key)
            if answer.status_code != 200:
                ask.refusal = f"{answer.status_code} {answer.text[:200]}"
                return
            ask.reservation = int(answer.json()["id"])
            await asyncio.sleep(delay)
            await self._follow_up(follow_up, ask, ask.reservation)
        except NoAnswer as error:
            if ask.reservation is None:
                ask.refusal = f"no answer: {error}"
            else:
                self.problems[f"no answer: {error.args[0].rpartition('/')[2]}"] += 1

    async def _follow_up(self, follow_up: str, ask: Ask, reservation: int) -> None:
        customer, (first, second) = ask.requester, ask.restaurant.staff
        own, house = f"/customer/reservation/{reservation}", f"/restaurant/reservation/{reservation}"
        match follow_up:
            case "accept":
                await asyncio.gather(
                    self._decide(first, f"{house}/accept", "RESERVATION_ACCEPTED"),
                    self._decide(second, f"{house}/reject", "RESERVATION_REJECTED"),
                )
            case "reject":
                await self._decide(first, f"{house}/reject", "RESERVATION_REJECTED")
            case "change":
                await self._decide(customer, own, "RESERVATION_CHANGED", {"partySize": 7}, method="PATCH")
                await self._decide(second, f"{house}/accept", "RESERVATION_ACCEPTED")
            case "postpone":
                later = {"proposedTime": (ask.slot + timedelta(hours=1)).isoformat()}
                await self._decide(second, f"{house}/postpone", "RESERVATION_POSTPONED", later)
                await self._decide(customer, f"{own}/cancel", "RESERVATION_CANCELLED")
            case "cancel":
                await asyncio.gather(
                    self._decide(customer, f"{own}/cancel", "RESERVATION_CANCELLED"),
                    self._decide(first, f"{house}/accept", "RESERVATION_ACCEPTED"),
                )
            case _:
                pass

    async def _decide(
        self, actor: str, path: str, event_type: str, body: dict[str, Any] | None = None, method: str = "POST"
    ) -> None:
        answer = await self._api.call(actor, method, path, body)
        if answer.status_code == 200:
            done = answer.json()
            self.decisions.append(Decision(int(done["id"]), int(done["version"]), event_type, actor))
        elif answer.status_code == 409:
            self.lost_races += 1
        else:
            self.problems[f"{method} {path.rpartition('/')[2]}: {answer.status_code}"] += 1
