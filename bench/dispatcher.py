"""L2 to the providers: throughput of a dispatcher process against bare loops, and the latency of one row.

Both send to the same sandbox, which is a separate process, so that it costs both sides the same.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from aiosmtplib import SMTP

from bench.harness import Figure, Harness
from bench.process import make_service_account, python_process
from channel_dispatcher.channels.smtp.layout import html, plain_text
from channel_dispatcher.channels.smtp.message import build_mail, parse_mailbox
from tablebell.messages import EmailMessage
from tablebell.outbox import Level
from tablebell.people import DURABLE_CHANNELS, Channel
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, append_rows, eventually, free_port
from tablebell.wakeups import open_wakeup_sender
from tablebell_tools.unlimited import UNLIMITED

CONNECTIONS = 16
ROUNDS = 5
MAILS = 2000
POSTS = 400
LATENCY_ROWS = 500
PER_SECOND = 50
ACCOUNT = "AC00000000000000000000000000000000"
MESSAGES: Mapping[Channel, dict[str, Any]] = {
    Channel.EMAIL: {
        "language": "it",
        "subject": "Abbiamo ricevuto la tua richiesta",
        "preheader": "Venerdì 20 novembre 2026 alle 20:30 · 4 persone",
        "letterhead": {
            "name": "Trattoria del Porto",
            "address": "Calata 12, 16126 Genova",
            "phone": "+39 010 555 0110",
        },
        "greeting": "Ciao Anna Bianchi,",
        "paragraphs": ["Grazie per averci scelto. Il tavolo non è ancora confermato: ti scriviamo appena possibile."],
        "facts": [["Quando", "Venerdì 20 novembre 2026 alle 20:30"], ["Tavolo per", "4 persone"]],
        "contact": "Per modificare o annullare, chiamaci al +39 010 555 0110 o rispondi a questa email.",
        "footer": "Ricevi questa email per una prenotazione gestita con Tablebell.",
        "sender_name": "Trattoria del Porto",
        "reply_to": "tavoli@porto.example",
    },
    Channel.SMS: {"text": "Nuova prenotazione: tavolo per 4"},
    Channel.PUSH: {"title": "Nuova prenotazione", "body": "Tavolo per 4", "data": {"reservationId": "1"}},
    Channel.SLACK: {"text": "Nuova prenotazione: tavolo per 4"},
}


class Bench:
    """Adds rows for the running dispatcher and reads the results."""

    def __init__(self, pool: Pool, ports: Mapping[str, int], credentials: Path) -> None:
        self.pool = pool
        self.ports = ports
        self.credentials = credentials
        self._numbers = count(1)

    def row(self, channel: Channel) -> dict[str, Any]:
        number = next(self._numbers)
        addresses = {Channel.EMAIL: f"anna{number}@mail.example", Channel.SMS: f"+39333{number:07}"}
        return {
            "notification_id": number,
            "channel_type": channel,
            "user_type": "CUSTOMER",
            "user_id": number,
            "restaurant_id": number % 20,
            "recipient": addresses.get(channel, f"token-{number}"),
            "message": MESSAGES[channel],
        }

    async def dispatch(self, channel: Channel, rows: int) -> float:
        """Rows per second, from their commit until the provider accepts the last one."""
        given = [self.row(channel) for _ in range(rows)]
        ids = await append_rows(self.pool, Level.CHANNEL_SEND, given)
        began = time.time()
        await self.pool.execute("SELECT pg_notify($1, '')", str(Level.CHANNEL_SEND))
        query = "SELECT NOT EXISTS (SELECT FROM notification_channel_send WHERE is_sent IS NULL AND channel_type = $1)"

        async def done() -> bool:
            return bool(await self.pool.fetchval(query, channel))

        await eventually(done, within=60, every=0.25)
        query = "SELECT count(*) FROM notification_channel_send WHERE id = ANY ($1) AND is_sent"
        if await self.pool.fetchval(query, ids) != rows:
            raise RuntimeError(f"{channel}: not everything was sent")
        (last,) = await self.newest(channel, 1)
        return rows / float(last["received_at_epoch"] - began)

    async def newest(self, channel: Channel, limit: int) -> list[dict[str, Any]]:
        """The newest messages in the sandbox, with their times."""
        url = f"http://127.0.0.1:{self.ports['SANDBOX_PORT']}/api/messages"
        async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
            response = await http.get(url, params={"channel": channel, "limit": limit})
        messages: list[dict[str, Any]] = response.json()
        return messages


async def measure(harness: Harness) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        async with harness.database() as database, open_pool(database.url, "bench", 4) as pool:
            bench = Bench(pool, _free_ports(), Path(folder) / "account.json")
            async with _running(bench, database):
                figures = await _latency(harness, bench)
                for channel in MESSAGES:
                    figures.append(await _throughput(harness, bench, channel))
    return figures


async def _throughput(harness: Harness, bench: Bench, channel: Channel) -> Figure:
    rows, bar, bare = (MAILS, 0.7, _bare_smtp) if channel is Channel.EMAIL else (POSTS, 0.6, _bare_http(channel))
    await bare(bench, rows // 4)
    await bench.dispatch(channel, rows // 4)  # warm up both sides
    rounds = [(await bare(bench, rows), await bench.dispatch(channel, rows)) for _ in range(ROUNDS)]
    ceiling, value = (statistics.median(side) for side in zip(*rounds, strict=True))
    harness.say(f"{channel}: {value:.0f} of {ceiling:.0f} a second")
    note = f"{CONNECTIONS} connections; medians of {ROUNDS} rounds of {rows}"
    name = f"{channel} sent"
    return Figure(name, value, "/s", ceiling, f"ratio ≥ {bar}", value >= bar * ceiling, note)


async def _latency(harness: Harness, bench: Bench) -> list[Figure]:
    """From the insert of the row (the database's clock) to the sandbox's acceptance, on one machine."""
    await bench.dispatch(Channel.EMAIL, 100)
    began, ids = time.monotonic(), []
    async with open_wakeup_sender(bench.pool) as wakeup_sender:
        for number in range(LATENCY_ROWS):
            await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
            ids += await append_rows(bench.pool, Level.CHANNEL_SEND, [bench.row(Channel.EMAIL)])
            wakeup_sender.announce(Level.CHANNEL_SEND)
    await asyncio.sleep(1)
    rows = await bench.pool.fetch(
        "SELECT provider_message_id, extract(epoch FROM created_at)::float AS at FROM notification_channel_send "
        "WHERE id = ANY ($1)",
        ids,
    )
    created_at = {f"<{row['provider_message_id']}>": row["at"] for row in rows}
    messages = await bench.newest(Channel.EMAIL, 1000)
    delays = sorted(
        each["received_at_epoch"] - created_at[each["key"]] for each in messages if each["key"] in created_at
    )
    if len(delays) != LATENCY_ROWS:
        raise RuntimeError(f"{len(delays)} of {LATENCY_ROWS} mails arrived")
    p50, p99 = delays[len(delays) // 2] * 1000, delays[int(len(delays) * 0.99)] * 1000
    harness.say(f"row to acceptance: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    note = f"EMAIL, {LATENCY_ROWS} rows at {PER_SECOND}/s"
    return [
        Figure("row to acceptance p50", p50, "ms", None, "≤ 20 ms", p50 <= 20, note),
        Figure("row to acceptance p99", p99, "ms", None, "≤ 100 ms", p99 <= 100, note),
    ]


async def _bare_smtp(bench: Bench, mails: int) -> float:
    """aiosmtplib alone: as many kept connections, and a prepared mail of the same length."""
    mail = _prepared_mail()
    numbers = iter(range(mails))

    async def loop(client: SMTP) -> None:
        for number in numbers:
            await client.sendmail("no-reply@tablebell.example", [f"bare{number}@mail.example"], mail)

    clients = [SMTP(hostname="127.0.0.1", port=bench.ports["SANDBOX_SMTP_PORT"]) for _ in range(CONNECTIONS)]
    for client in clients:
        await client.connect()
    began = time.perf_counter()
    await asyncio.gather(*(loop(client) for client in clients))
    elapsed = time.perf_counter() - began
    for client in clients:
        await client.quit()
    return mails / elapsed


def _prepared_mail() -> bytes:
    message = EmailMessage.model_validate(MESSAGES[Channel.EMAIL])
    return build_mail(
        sender=parse_mailbox("no-reply@tablebell.example"),
        recipient="anna@mail.example",
        subject=message.subject,
        text=plain_text(message),
        html=html(message),
        message_id="1-1@tablebell.example",
        date=datetime.now(UTC),
        unsubscribe="https://tablebell.example",
    )


def _bare_http(channel: Channel) -> Callable[[Bench, int], Awaitable[float]]:
    async def run(bench: Bench, posts: int) -> float:
        """httpx alone: as many kept connections, and the same body."""
        url, request = await _request(bench, channel)
        numbers = iter(range(posts))
        limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        async with httpx.AsyncClient(limits=limits, timeout=15, trust_env=False) as client:

            async def loop() -> None:
                for _ in numbers:
                    (await client.post(url, **request)).raise_for_status()

            began = time.perf_counter()
            await asyncio.gather(*(loop() for _ in range(CONNECTIONS)))
            return posts / (time.perf_counter() - began)

    return run


async def _request(bench: Bench, channel: Channel) -> tuple[str, dict[str, Any]]:
    message = MESSAGES[channel]
    match channel:
        case Channel.SMS:
            url = f"http://127.0.0.1:{bench.ports['SANDBOX_SMS_PORT']}/2010-04-01/Accounts/{ACCOUNT}/Messages.json"
            form = {"To": "+393330000001", "From": "+390200000000", "Body": message["text"]}
            return url, {"data": form, "auth": (ACCOUNT, "secret")}
        case Channel.PUSH:
            token = await _access_token(bench)
            url = f"http://127.0.0.1:{bench.ports['SANDBOX_FCM_PORT']}/v1/projects/bench/messages:send"
            notification = {"title": message["title"], "body": message["body"]}
            body = {"message": {"token": "token-1", "notification": notification, "data": message["data"]}}
            return url, {"json": body, "headers": {"Authorization": f"Bearer {token}"}}
        case _:
            url = f"http://127.0.0.1:{bench.ports['SANDBOX_SLACK_PORT']}/services/T000/B000/bench"
            return url, {"json": message}


async def _access_token(bench: Bench) -> str:
    from channel_dispatcher.channels.google_oauth import GRANT, ServiceAccount  # noqa: PLC0415 - only the push loop needs it

    account = ServiceAccount.read(bench.credentials)
    async with httpx.AsyncClient(trust_env=False) as http:
        form = {"grant_type": GRANT, "assertion": account.assertion(int(time.time()))}
        return str((await http.post(account.token_uri, data=form)).json()["access_token"])


@asynccontextmanager
async def _running(bench: Bench, database: Database) -> AsyncIterator[None]:
    """Runs the sandbox and the dispatcher, each in a process of its own."""
    ports, account = bench.ports, str(bench.credentials)
    await make_service_account(bench.credentials, "bench", ports["SANDBOX_FCM_PORT"])
    sandbox = {name: str(port) for name, port in ports.items() if name.startswith("SANDBOX")}
    sandbox |= {"SANDBOX_FCM_CREDENTIALS_FILE": account}
    dispatcher = {
        **UNLIMITED,
        "DATABASE_URL": database.url_of("channel_dispatcher").get_secret_value(),
        "SMTP_URL": f"smtp://127.0.0.1:{ports['SANDBOX_SMTP_PORT']}",
        "MAIL_FROM": "Tablebell <no-reply@tablebell.example>",
        "SMS_API_URL": f"http://127.0.0.1:{ports['SANDBOX_SMS_PORT']}",
        "SMS_ACCOUNT": ACCOUNT,
        "SMS_TOKEN": "secret",
        "SMS_FROM": "+390200000000",
        "FCM_API_URL": f"http://127.0.0.1:{ports['SANDBOX_FCM_PORT']}",
        "FCM_PROJECT": "bench",
        "FCM_CREDENTIALS_FILE": account,
        "SLACK_WEBHOOK_URL": f"http://127.0.0.1:{ports['SANDBOX_SLACK_PORT']}/services/T000/B000/bench",
        **{f"{channel}_CONCURRENCY": str(CONNECTIONS) for channel in MESSAGES},
        "CHANNELS_OFF": ",".join(channel for channel in DURABLE_CHANNELS if channel not in MESSAGES),
    }
    async with (
        python_process("tablebell_sandbox", port=ports["SANDBOX_PORT"], settings=sandbox),
        python_process("channel_dispatcher", port=ports["PORT"], settings=dispatcher),
    ):
        yield


def _free_ports() -> dict[str, int]:
    names = ["PORT", "SANDBOX_PORT", *(f"SANDBOX_{part}_PORT" for part in ("SMTP", "SMS", "FCM", "SLACK"))]
    return {name: free_port() for name in names}
