"""Throughput and latency of `ask`, compared with the same endpoint without its event.

Both are processes of the service with the same validation, tokens and serialisation, measured in turns. The ceiling
builds no event, its statement lacks the insert into event_outbox, and it sends no wake-up. The client is minimal and
reuses its connections, so that the server is the bottleneck.
"""

import asyncio
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

from bench.harness import Figure, Harness
from bench.process import python_process
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, free_port
from tablebell.testing.tokens import AUDIENCE, PRIVATE_KEY_FILE, token
from tablebell_tools.unlimited import UNLIMITED

RESTAURANT = 11  # always open
CUSTOMERS = range(10_000, 10_200)
CONNECTIONS = 24
ROUNDS = 20
ROUND_SECONDS = 0.7
STEADY_SECONDS = 10.0
NOTIFICATIONS = 1_000_000


async def measure(harness: Harness) -> list[Figure]:
    async with harness.database() as database, open_pool(database.url, "bench", 4) as pool:
        await pool.execute(
            "INSERT INTO customer (id, name) SELECT id, 'Guest ' || id FROM unnest($1::bigint[]) AS id", list(CUSTOMERS)
        )
        async with server(database) as ours, server(database, without_outbox=True) as bare:
            requests = asks()
            figures = await compare(harness, requests, ours, bare)
            harness.say("p99 at half of that rate")
            latencies = await steadily(ours, requests, figures[0].value / 2)
            p99 = 1000 * statistics.quantiles(latencies, n=100)[98]
            figures.append(Figure("ask at half of saturation, p99", p99, "ms", bar="< 50", ok=p99 < 50))
            harness.say(f"an inbox among {NOTIFICATIONS:,} notifications")
            figures.append(await inbox(pool, ours))
    return figures


async def compare(harness: Harness, requests: Iterator[bytes], ours: int, bare: int) -> list[Figure]:
    for port in (ours, bare):
        await flood(port, requests, 2.0)  # connections, prepared statements, caches
    with_event: list[float] = []
    without: list[float] = []
    for number in range(ROUNDS):
        # The order alternates, so that neither always runs first.
        turns = [(ours, with_event), (bare, without)]
        for port, rates in turns if number % 2 else turns[::-1]:
            rates.append(await flood(port, requests, ROUND_SECONDS))
        if number % 5 == 4:
            medians = statistics.median(with_event), statistics.median(without)
            harness.say(f"{medians[0]:,.0f} requests/s with the event, {medians[1]:,.0f} without")
    rate, ceiling = statistics.median(with_event), statistics.median(without)
    return [
        Figure("ask, with its event", rate, "requests/s", ceiling, bar="≥ 0.9 of without", ok=rate / ceiling >= 0.9)
    ]


async def inbox(pool: Pool, port: int) -> Figure:
    """A page of a user with 10,000 notifications."""
    await pool.execute(
        "INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id,"
        " aggregate_version, shared_read)"
        " SELECT gen_random_uuid(), 'RESERVATION_REQUESTED', 'RESTAURANT', n, 10, 1, true"
        " FROM generate_series(1, $1 / 4) AS n",
        NOTIFICATIONS,
        timeout=120,
    )
    await pool.execute(
        "INSERT INTO notification (event_notification_id, user_id, user_type, title, body, is_read)"
        " SELECT id, CASE WHEN copy = 0 AND id % 25 = 0 THEN 50 ELSE 100000 + (id * 4 + copy) % 5000 END,"
        " 'RESTAURANT_USER', 'title', 'body', id % 10 <> 0 FROM event_notification, generate_series(0, 3) AS copy",
        timeout=120,
    )
    await pool.execute("ANALYZE event_notification, notification_restaurant", timeout=60)
    page = request("GET", "/notifications?limit=20", token("RESTAURANT_USER:50"))
    latencies = await steadily(port, iter(lambda: page, None), 100.0, seconds=3.0)
    p99 = 1000 * statistics.quantiles(latencies, n=100)[98]
    return Figure(f"a page of the inbox among {NOTIFICATIONS:,}, p99", p99, "ms", bar="< 50", ok=p99 < 50)


def asks() -> Iterator[bytes]:
    """Requests without double bookings."""
    heads = [(customer, token(f"CUSTOMER:{customer}", seconds=3600)) for customer in CUSTOMERS]
    slot = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(days=1)
    while True:
        slot += timedelta(minutes=1)
        for customer, bearer in heads:
            fields = f'"customerId":{customer},"restaurantId":{RESTAURANT},"partySize":4,"slotTime":"{slot:%FT%TZ}"'
            yield request("POST", "/customer/reservation/ask", bearer, f"{{{fields}}}")


def request(method: str, path: str, bearer: str, body: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {bearer}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n{body}".encode()


class Client(asyncio.Protocol):
    """A persistent connection with one request at a time. Parses only the length of a response."""

    LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)

    def __init__(self) -> None:
        self._received = b""
        self._response: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._response and not self._response.done():
            self._response.set_exception(error or ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        length = self.LENGTH.search(self._received[:end]) if end >= 0 else None
        if length is None or len(self._received) < end + 4 + int(length[1]):
            return
        answer, self._received = self._received, b""
        if self._response and not self._response.done():
            if answer.startswith(b"HTTP/1.1 200"):
                self._response.set_result(None)
            else:
                self._response.set_exception(RuntimeError(answer.decode()))

    async def ask(self, sent: bytes) -> None:
        assert self._transport is not None
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(sent)
        await self._response

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@asynccontextmanager
async def connected(port: int, count: int) -> AsyncIterator[list[Client]]:
    loop = asyncio.get_running_loop()
    clients = [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


async def flood(port: int, requests: Iterator[bytes], seconds: float) -> float:
    """Send requests back to back on every connection. Returns responses per second."""
    async with connected(port, CONNECTIONS) as clients:
        started = time.perf_counter()

        async def keep_asking(client: Client) -> int:
            count = 0
            while time.perf_counter() - started < seconds:
                await client.ask(next(requests))
                count += 1
            return count

        answered = sum(await asyncio.gather(*map(keep_asking, clients)))
        return answered / (time.perf_counter() - started)


async def steadily(port: int, requests: Iterator[bytes], rate: float, seconds: float = STEADY_SECONDS) -> list[float]:
    """Send requests at a fixed rate. Each latency counts from the time at which the request was due."""
    async with connected(port, 4 * CONNECTIONS) as clients:
        idle: asyncio.Queue[Client] = asyncio.Queue()
        for client in clients:
            idle.put_nowait(client)
        latencies: list[float] = []

        async def one(due: float) -> None:
            client = await idle.get()
            await client.ask(next(requests))
            latencies.append(time.perf_counter() - due)
            idle.put_nowait(client)

        started = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate * seconds)):
                due = started + number / rate
                if (pause := due - time.perf_counter()) > 0:
                    await asyncio.sleep(pause)
                tasks.create_task(one(due))
        return latencies


@asynccontextmanager
async def server(database: Database, *, without_outbox: bool = False) -> AsyncIterator[int]:
    """Run the service in a process of its own. Yields the port."""
    port = free_port()
    settings = {
        "DATABASE_URL": database.url_of("reservation_api").get_secret_value(),
        "JWT_PRIVATE_KEY_FILE": str(PRIVATE_KEY_FILE),
        "JWT_AUDIENCE": AUDIENCE,
        **UNLIMITED,
    }
    async with python_process("bench.api" if without_outbox else "reservation_api", port=port, settings=settings):
        yield port


def serve_without_outbox() -> int:
    """The ceiling: the same service, whose `ask` builds and inserts no event and sends no wake-up."""
    from reservation_api import __main__, create_reservation, store  # noqa: PLC0415 - only in the ceiling's process
    from tablebell.wakeups import WakeupSender  # noqa: PLC0415

    statement = store.SQL["ask_reservation"]
    bare, count = re.subn(r", appended_event AS \(.*\n\)\n", "\n", statement, flags=re.DOTALL)
    if count != 1:
        raise ValueError("ask_reservation has no CTE appended_event")
    # PostgreSQL requires every parameter to be used.
    store.SQL["ask_reservation"] = bare.replace("SELECT reserved.id,", "SELECT $8::jsonb, reserved.id,")
    create_reservation.requested_event = lambda *_, **__: {}  # type: ignore[attr-defined]
    WakeupSender.announce = lambda *_: None  # type: ignore[method-assign]
    return __main__.main()


if __name__ == "__main__":
    sys.exit(serve_without_outbox())
