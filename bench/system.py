"""The whole system: idle cost, latency of each hop at several rates, and maximum throughput."""

import asyncio
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import httpx
from websockets.asyncio.client import ClientConnection, connect

from bench.harness import Figure, Harness
from bench.running import Running, running_system
from tablebell_tools.tokens import TokenIssuer

RATES = (5, 20, 50)
SECONDS = 8
FLOOD_SECONDS = 8
CLIENTS = 16
CUSTOMERS = range(100_000, 100_500)
STAFF = "restaurant_user:60"  # of restaurant 11, which is always open

HOPS = """
SELECT r.id,
       (SELECT o.created_at FROM event_outbox AS o WHERE o.aggregate_id = r.id) AS committed,
       (SELECT o.published_at FROM event_outbox AS o WHERE o.aggregate_id = r.id) AS published,
       max(n.created_at) AS notified,
       max(s.created_at) AS expanded,
       max(s.sent_at) AS sent
  FROM reservation AS r
  JOIN event_notification AS en ON en.reservation_id = r.id
  JOIN notification AS n ON n.event_notification_id = en.id
  JOIN notification_channel_send AS s ON s.notification_id = n.id
 WHERE r.id = ANY ($1)
 GROUP BY r.id
"""
UNFINISHED = """
SELECT (SELECT count(*) FROM event_outbox WHERE status <> 'PUBLISHED')
     + (SELECT count(*) FROM notification_outbox WHERE status <> 'PUBLISHED')
     + (SELECT count(*) FROM notification_channel_send WHERE is_sent IS NULL)
"""


class Load:
    """Requests reservations, each for another time, and records when each request was sent."""

    def __init__(self, running: Running, api: httpx.AsyncClient) -> None:
        self._api = api
        tokens = TokenIssuer(running.environment.signing_key)
        self._tokens = [tokens.issue(f"customer:{number}") for number in CUSTOMERS]
        self._first_slot = datetime.now(UTC).replace(tzinfo=None, second=0, microsecond=0) + timedelta(days=10)
        self._count = 0
        self.asked: dict[int, float] = {}

    async def ask(self) -> None:
        number, self._count = self._count, self._count + 1
        customer = number % len(CUSTOMERS)
        slot = self._first_slot + timedelta(minutes=number // len(CUSTOMERS))
        body = {"customerId": CUSTOMERS[customer], "restaurantId": 11, "partySize": 2, "slotTime": slot.isoformat()}
        began = time.time()
        headers = {"Authorization": f"Bearer {self._tokens[customer]}"}
        answer = await self._api.post("/customer/reservation/ask", json=body, headers=headers)
        answer.raise_for_status()
        self.asked[answer.json()["id"]] = began

    async def at_rate(self, rate: int, seconds: float) -> None:
        """Open loop: a slow response does not delay the next request."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
                tasks.create_task(self.ask())

    async def flood(self, seconds: float) -> None:
        until = time.monotonic() + seconds

        async def keep_asking() -> None:
            while time.monotonic() < until:
                await self.ask()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(CLIENTS):
                tasks.create_task(keep_asking())


async def measure(harness: Harness) -> list[Figure]:
    figures: list[Figure] = []
    async with running_system(harness) as running:
        database = await asyncpg.connect(running.environment.database.url.get_secret_value())
        await database.execute(
            "INSERT INTO customer (id, name, email, phone, fcm_token)"
            " SELECT n, 'Customer ' || n, n || '@mail.example', '+39333' || n, 'token-' || n"
            "   FROM generate_series($1::int, $2::int) AS n",
            CUSTOMERS.start,
            CUSTOMERS.stop - 1,
        )
        harness.say("everything runs; idle for 10 s")
        figures += await idle(running)
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        async with (
            httpx.AsyncClient(base_url=running.api, timeout=30, limits=limits) as api,
            connect(running.gateway, compression=None) as browser,
        ):
            token = TokenIssuer(running.environment.signing_key).issue(STAFF)
            await browser.send(json.dumps({"type": "auth", "token": token}))
            await browser.recv()
            frames: dict[int, float] = {}
            listening = asyncio.create_task(listen(browser, frames))
            load = Load(running, api)
            await load.at_rate(10, 2)  # warm connections and caches
            for rate in RATES:
                harness.say(f"{rate} reservations a second for {SECONDS} s")
                load.asked.clear()
                await load.at_rate(rate, SECONDS)
                await quiet(database, within=60)
                figures += await latencies(database, load.asked, frames, rate)
            harness.say(f"as fast as {CLIENTS} clients can for {FLOOD_SECONDS} s")
            figures += await sustained(database, load)
            listening.cancel()
        await database.close()
    return figures


async def listen(browser: ClientConnection, frames: dict[int, float]) -> None:
    async for text in browser:
        frame = json.loads(text)
        if frame["type"] == "notification":
            frames.setdefault(frame["reservationId"], time.time())


async def idle(running: Running) -> list[Figure]:
    await asyncio.sleep(2)
    services = {name: process for name, process in running.processes.items() if name != "sandbox"}
    before = {name: process.cpu_seconds for name, process in services.items()}
    await asyncio.sleep(10)
    figures = []
    for name, process in services.items():
        busy = (process.cpu_seconds - before[name]) / 10 * 100
        figures.append(Figure(f"{name} idle CPU", busy, "% of a core", bar="< 1 %", ok=busy < 1))
        figures.append(Figure(f"{name} memory", process.resident_kib / 1024, "MiB"))
    return figures


async def quiet(database: "asyncpg.Connection[asyncpg.Record]", within: float) -> None:
    until = time.monotonic() + within
    while await database.fetchval(UNFINISHED) and time.monotonic() < until:  # noqa: ASYNC110 - other processes do the work
        await asyncio.sleep(0.05)


async def latencies(
    database: "asyncpg.Connection[asyncpg.Record]", asked: Mapping[int, float], frames: Mapping[int, float], rate: int
) -> list[Figure]:
    """From the request to each hop's timestamp, at its slowest recipient."""
    since: dict[str, list[float]] = {}
    for row in await database.fetch(HOPS, list(asked)):
        for hop in ("committed", "published", "notified", "expanded", "sent"):
            since.setdefault(hop, []).append(row[hop].timestamp() - asked[row["id"]])
    since["in the browser"] = [frames[number] - began for number, began in asked.items() if number in frames]
    figures = []
    for hop, values in since.items():
        p50, p95, p99 = (1000 * value for value in percentiles(values))
        bar, ok = "", None
        if hop == "in the browser" and rate == 20:
            bar, ok = "p50 ≤ 50, p99 ≤ 150", p50 <= 50 and p99 <= 150
        note = f"p95 {p95:.1f} ms, p99 {p99:.1f} ms, n = {len(values)}"
        figures.append(Figure(f"{hop}, {rate}/s: p50", p50, "ms", note=note))
        figures.append(Figure(f"{hop}, {rate}/s: p99", p99, "ms", bar=bar, ok=ok))
    return figures


def percentiles(values: Sequence[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98]


async def sustained(database: "asyncpg.Connection[asyncpg.Record]", load: Load) -> list[Figure]:
    load.asked.clear()
    started = time.monotonic()
    await load.flood(FLOOD_SECONDS)
    asked_in = time.monotonic() - started
    await quiet(database, within=120)
    drained_in = time.monotonic() - started
    sends = await database.fetchval(
        "SELECT count(*) FROM notification_channel_send AS s JOIN notification AS n ON n.id = s.notification_id"
        " JOIN event_notification AS en ON en.id = n.event_notification_id WHERE en.reservation_id = ANY ($1)",
        list(load.asked),
    )
    return [
        Figure("accepted, all services on this machine", len(load.asked) / asked_in, "reservations/s"),
        Figure("notified on every channel", len(load.asked) / drained_in, "reservations/s"),
        Figure("sent", sends / drained_in, "messages/s", note=f"{sends} messages of {len(load.asked)} reservations"),
    ]
