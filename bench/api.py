"""What the outbox costs a request, and how long a request takes: `ask` beside the same endpoint without its event.

Both are the service itself, a process each, with the same validation, tokens and serialisation; they take turns. The
ceiling's statement lacks the insert into event_outbox, and nothing is announced. The load comes over kept connections
from a client that does next to nothing, so that the server is what is measured.
"""

import asyncio
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import httpx
import jwt

from bench.harness import Figure, Harness
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, eventually, free_port
from tablebell_tools.unlimited import UNLIMITED

SECRET = "only-for-measurements-0123456789abcdef"  # noqa: S105 - of a server that lives as long as the run
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
        # Who goes first changes, so that neither always has the warmer machine.
        turns = [(ours, with_event), (bare, without)]
        for port, rates in turns if number % 2 else turns[::-1]:
            rates.append(await flood(port, requests, ROUND_SECONDS))
        if number % 5 == 4:
            so_far = statistics.median(with_event), statistics.median(without)
            harness.say(f"{so_far[0]:,.0f} a second with the event, {so_far[1]:,.0f} without")
    rate, ceiling = statistics.median(with_event), statistics.median(without)
    return [
        Figure("ask, with its event", rate, "requests/s", ceiling, bar="≥ 0.9 of without", ok=rate / ceiling >= 0.9)
    ]


async def inbox(pool: Pool, port: int) -> Figure:
    """Of somebody who has ten thousand of them."""
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
    page = request("GET", "/notifications?limit=20", token("RESTAURANT_USER", 50))
    latencies = await steadily(port, iter(lambda: page, None), 100.0, seconds=3.0)
    p99 = 1000 * statistics.quantiles(latencies, n=100)[98]
    return Figure(f"a page of the inbox among {NOTIFICATIONS:,}, p99", p99, "ms", bar="< 50", ok=p99 < 50)


def asks() -> Iterator[bytes]:
    """Never the same customer at the same time twice."""
    heads = [(customer, token("CUSTOMER", customer)) for customer in CUSTOMERS]
    slot = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(days=1)
    while True:
        slot += timedelta(minutes=1)
        for customer, bearer in heads:
            asked = f'"customerId":{customer},"restaurantId":{RESTAURANT},"partySize":4,"slotTime":"{slot:%FT%TZ}"'
            yield request("POST", "/customer/reservation/ask", bearer, f"{{{asked}}}")


def request(method: str, path: str, bearer: str, body: str = "") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {bearer}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n{body}".encode()


def token(user_type: str, user_id: int) -> str:
    expires = datetime.now(UTC) + timedelta(hours=1)
    claims = {"sub": str(user_id), "user_type": user_type, "aud": "tablebell", "exp": expires}
    return jwt.encode(claims, SECRET, algorithm="HS256")


class Client(asyncio.Protocol):
    """One kept connection, one request at a time: just enough HTTP to know where an answer ends."""

    LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)

    def __init__(self) -> None:
        self._received = b""
        self._answered: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered and not self._answered.done():
            self._answered.set_exception(error or ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        length = self.LENGTH.search(self._received[:end]) if end >= 0 else None
        if length is None or len(self._received) < end + 4 + int(length[1]):
            return
        answer, self._received = self._received, b""
        if self._answered and not self._answered.done():
            if answer.startswith(b"HTTP/1.1 200"):
                self._answered.set_result(None)
            else:
                self._answered.set_exception(RuntimeError(answer.decode()))

    async def ask(self, sent: bytes) -> None:
        assert self._transport is not None
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(sent)
        await self._answered

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
    """As many as the server takes, each connection again as soon as it is answered; answers a second."""
    async with connected(port, CONNECTIONS) as clients:
        began = time.perf_counter()

        async def keep_asking(client: Client) -> int:
            count = 0
            while time.perf_counter() - began < seconds:
                await client.ask(next(requests))
                count += 1
            return count

        answered = sum(await asyncio.gather(*map(keep_asking, clients)))
        return answered / (time.perf_counter() - began)


async def steadily(port: int, requests: Iterator[bytes], rate: float, seconds: float = STEADY_SECONDS) -> list[float]:
    """At a fixed rate, whatever the server does: each latency counts from when its request was due."""
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

        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate * seconds)):
                due = began + number / rate
                if (pause := due - time.perf_counter()) > 0:
                    await asyncio.sleep(pause)
                tasks.create_task(one(due))
        return latencies


@asynccontextmanager
async def server(database: Database, *, without_outbox: bool = False) -> AsyncIterator[int]:
    """The service in a process of its own; its port."""
    port = free_port()
    module = ("bench.api",) if without_outbox else ("reservation_api",)
    environment = {
        **os.environ,
        "DATABASE_URL": database.url_of("reservation_api").get_secret_value(),
        "JWT_SECRET": SECRET,
        "JWT_AUDIENCE": "tablebell",
        "HOST": "127.0.0.1",
        "PORT": str(port),
        **UNLIMITED,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with httpx.AsyncClient() as http:

            async def is_ready() -> bool:
                try:
                    return (await http.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(is_ready, within=30, every=0.1)
        yield port
    finally:
        process.terminate()
        await process.wait()


def serve_without_outbox() -> int:
    """The ceiling: the same service, whose `ask` writes no event and announces none."""
    from reservation_api import __main__, store  # noqa: PLC0415 - only in the process that is the ceiling
    from tablebell.wakeups import WakeupSender  # noqa: PLC0415

    statement = store.SQL["ask_reservation"]
    bare, count = re.subn(r", told AS \(.*\n\)\n", "\n", statement, flags=re.DOTALL)
    if count != 1:
        raise ValueError("the statement of `ask` has no part that tells of it")
    # PostgreSQL wants every parameter to be somewhere.
    unused = "SELECT $5::text, $6::text, $10::jsonb, reserved.id,"
    store.SQL["ask_reservation"] = bare.replace("SELECT reserved.id,", unused)
    WakeupSender.announce = lambda *_: None  # type: ignore[method-assign]
    return __main__.main()


if __name__ == "__main__":
    sys.exit(serve_without_outbox())
