"""Dispatchers in the test's own process, with the permissions of the service, against the sandbox."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg

from channel_dispatcher.breaker import Breaker
from channel_dispatcher.channels.email import EmailSettings
from channel_dispatcher.channels.push import PushSettings
from channel_dispatcher.channels.registry import CHANNELS
from channel_dispatcher.channels.slack import SlackSettings
from channel_dispatcher.channels.sms import SmsSettings
from channel_dispatcher.channels.spec import ChannelSettings
from channel_dispatcher.dispatcher import Dispatcher
from channel_dispatcher.failure_attribution import FailureAttribution
from channel_dispatcher.leases import LeaseKeeper
from channel_dispatcher.marks import MarkLimit
from channel_dispatcher.provider_health import ProviderHealth
from channel_dispatcher.recorder import Recorder
from tablebell.lifecycle import Stop
from tablebell.outbox import Level
from tablebell.people import Channel
from tablebell.postgres import Pool
from tablebell.retry import RetryPolicy
from tablebell.testing import append_rows, eventually
from tablebell.wakeups import Wakeup
from tablebell_sandbox.testing import RunningSandbox

MESSAGES: Mapping[Channel, dict[str, Any]] = {
    Channel.EMAIL: {
        "language": "it",
        "subject": "Nuova prenotazione",
        "preheader": "Tavolo per 4",
        "letterhead": {"name": "Trattoria del Porto"},
        "greeting": "Ciao Anna,",
        "paragraphs": ["Tavolo per 4, è tutto."],
        "footer": "Tablebell",
    },
    Channel.SMS: {"text": "Nuova prenotazione: tavolo per 4"},
    Channel.PUSH: {"title": "Nuova prenotazione", "body": "Tavolo per 4", "data": {"reservationId": "1"}},
    Channel.SLACK: {"text": "Nuova prenotazione: tavolo per 4"},
}
ADDRESSES = {
    Channel.EMAIL: "anna{}@mail.example",
    Channel.SMS: "+3933300{:05}",
    Channel.PUSH: "fcm-token-{}",
    Channel.SLACK: "#ops",
}
SOON = RetryPolicy(5, (timedelta(milliseconds=100),))


class Harness:
    def __init__(self, owner: Pool, service: Pool, sandbox: RunningSandbox, credentials: Path) -> None:
        self.pool = owner
        self.service = service
        self.sandbox = sandbox
        self.credentials = credentials
        self._numbers = count(1)

    async def add(self, channel: Channel, rows: int = 1, **columns: Any) -> list[int]:
        """Adds rows of L2, each with its own notification and person."""
        given = []
        for number in (next(self._numbers) for _ in range(rows)):
            row = {
                "notification_id": number,
                "channel_type": channel,
                "user_type": "CUSTOMER",
                "user_id": number,
                "restaurant_id": 10,
                "recipient": ADDRESSES[channel].format(number),
                "message": MESSAGES[channel],
            }
            given.append(row | columns)
        return await append_rows(self.pool, Level.CHANNEL_SEND, given)

    def recorder(self, mark_least: int = 1000) -> Recorder:
        marks = MarkLimit(self.service, share=0.02, window=timedelta(minutes=10), least=mark_least)
        return Recorder(self.service, marks)

    def settings(self, channel: Channel, **changes: Any) -> ChannelSettings:
        sandbox = self.sandbox
        match channel:
            case Channel.EMAIL:
                url = f"smtp://127.0.0.1:{sandbox.smtp_port}"
                return EmailSettings(
                    **{"smtp_url": url, "mail_from": "Tablebell <no-reply@tablebell.example>"} | changes
                )
            case Channel.SMS:
                login = {"sms_account": "AC1", "sms_token": "secret", "sms_from": "+390200000000"}
                return SmsSettings(**{"sms_api_url": sandbox.sms_url} | login | changes)
            case Channel.PUSH:
                project: dict[str, Any] = {"fcm_project": "tablebell-demo", "fcm_credentials_file": self.credentials}
                return PushSettings(**{"fcm_api_url": sandbox.fcm_url} | project | changes)
            case _:
                return SlackSettings(**{"slack_webhook_url": sandbox.slack_url} | changes)

    @asynccontextmanager
    async def dispatching(
        self,
        *channels: Channel,
        lease: float = 30.0,
        policy: RetryPolicy = SOON,
        patience: float = 5.0,
        poll: float = 0.1,
        changes: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[dict[Channel, Dispatcher]]:
        """Runs a dispatcher without its HTTP server; at the end it stops as on SIGTERM."""
        stop, recorder = Stop(), self.recorder()
        async with AsyncExitStack() as resources:
            dispatchers = {}
            for spec in CHANNELS:
                if spec.channel in channels:
                    settings = self.settings(spec.channel, **(changes or {}))
                    breaker = Breaker(time.monotonic, first_pause=0.3, longest_pause=0.5, ramp_seconds=0.2)
                    attribution = FailureAttribution(timedelta(seconds=0.3), timedelta(seconds=0.5))
                    dispatchers[spec.channel] = Dispatcher(
                        spec.channel,
                        await resources.enter_async_context(spec.open(settings, patience)),
                        pool=self.service,
                        recorder=recorder,
                        health=ProviderHealth(spec.channel, breaker, attribution, shared_address=spec.shared_address),
                        limits=settings.limits,
                        policy=policy,
                        wakeup=Wakeup(),
                        lease=timedelta(seconds=lease),
                        batch_size=500,
                        stop=stop,
                    )
            async with asyncio.TaskGroup() as tasks:
                recording = tasks.create_task(recorder.run())
                keeper = LeaseKeeper(self.service, list(dispatchers.values()), recorder, timedelta(seconds=lease))
                keeping = tasks.create_task(keeper.run())
                running = [tasks.create_task(each.run(poll)) for each in dispatchers.values()]
                try:
                    yield dispatchers
                finally:
                    stop.request()
                    await asyncio.gather(*running)
                    keeping.cancel()
                    recorder.finish()
                    await recording

    async def row(self, row_id: int) -> asyncpg.Record:
        row = await self.pool.fetchrow("SELECT * FROM notification_channel_send WHERE id = $1", row_id)
        assert row is not None
        return row

    async def attempts(self, row_id: int) -> list[asyncpg.Record]:
        query = "SELECT * FROM channel_send_attempt WHERE channel_send_id = $1 ORDER BY id"
        return await self.pool.fetch(query, row_id)

    async def finished(self, *row_ids: int, within: float = 18.0) -> list[asyncpg.Record]:
        """Waits until all rows are finished, and returns them."""
        query = "SELECT count(*) = 0 FROM notification_channel_send WHERE id = ANY ($1) AND is_sent IS NULL"

        async def done() -> bool:
            return bool(await self.pool.fetchval(query, list(row_ids)))

        await eventually(done, within=within, every=0.03)
        return [await self.row(row_id) for row_id in row_ids]
