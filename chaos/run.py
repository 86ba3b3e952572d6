"""One run: load and faults at once, then quiet, then everything that was seen is compared."""

import asyncio
import contextlib
import time
from datetime import timedelta

import asyncpg

from chaos import store, verdict
from chaos.api_client import ApiClient, open_api_client
from chaos.clients import Client, open_clients
from chaos.environment import ChaosEnvironment
from chaos.faults import Faults
from chaos.load import Load
from chaos.people import People, settle_people
from chaos.screen import Screen
from chaos.store import Connection
from tablebell_tools.audit.check import Finding, audit

PROGRESS_EVERY = 5.0
QUIET_LIMIT = 180.0
CATCH_UP_LIMIT = 30.0


class Run:
    def __init__(
        self, environment: ChaosEnvironment, screen: Screen, *, seconds: float, rate: float, seed: int
    ) -> None:
        self._stage = environment
        self._screen = screen
        self._seconds = seconds
        self._rate = rate
        self._seed = seed

    async def judge(self) -> list[Finding]:
        environment = self._stage
        began = time.monotonic()
        async with store.connect(environment.database_url) as connection:
            first_event = await store.next_event(connection)
            people = await settle_people(connection)
        async with (
            open_api_client(environment.api_urls, environment.jwt_secret) as api,
            open_clients(people.listeners(), environment.gateway_urls, api, environment.jwt_secret) as clients,
        ):
            load, faults = Load(api, people, self._seed), Faults(environment, self._screen, self._seed)
            await self._break(load, faults, clients, first_event)
            self._screen.say(f"faults: {', '.join(f'{what} ({count})' for what, count in faults.counts.items())}")
            made = f"{load.answered} reservations in {load.seconds:.0f} s, {len(load.decisions)} decisions"
            self._screen.say(f"{made}, {api.lost_answers} answers lost on the way")
            await environment.mend()
            async with store.connect(environment.database_url) as connection:
                await self._quiet(connection, first_event)
                compared = await self._compare(connection, load, people, api, clients)
                reach = timedelta(seconds=time.monotonic() - began + 5)
                audited = await audit(connection, reach, settle=timedelta(0))
            return [*compared, verdict.judge_services(faults.ended, len(environment.services)), *audited]

    async def _break(self, load: Load, faults: Faults, clients: list[Client], first_event: int) -> None:
        self._screen.say(f"{self._rate:g} reservations a second for {self._seconds:g} s, seed {self._seed}")
        progress = asyncio.create_task(self._progress(load, clients, first_event), name="progress")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run(self._rate, self._seconds))
                tasks.create_task(faults.run(self._seconds, load.over))
        finally:
            progress.cancel()
            await asyncio.gather(progress, return_exceptions=True)

    async def _compare(
        self, connection: Connection, load: Load, people: People, api: ApiClient, clients: list[Client]
    ) -> list[Finding]:
        deadline = time.monotonic() + CATCH_UP_LIMIT
        inboxes = await verdict.read_inboxes(connection, api, clients)
        while not all(inbox.agrees for inbox in inboxes) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)  # the last frames are on their way
            inboxes = await verdict.read_inboxes(connection, api, clients)
        arrivals = await verdict.received_by_providers(self._stage.sandbox_url)
        return [
            *verdict.judge_requests(load, await store.list_reservations(connection, people.customers)),
            *verdict.judge_decisions(load, await store.list_events(connection, people.customers)),
            *verdict.judge_deliveries(await store.list_sends(connection), arrivals),
            *verdict.judge_browsers(inboxes),
        ]

    async def _quiet(self, connection: Connection, first_event: int) -> None:
        """Until nothing is on its way, or for so long that what is left is stuck."""
        deadline = time.monotonic() + QUIET_LIMIT
        while any((left := await store.count_open(connection, first_event)).values()):
            self._screen.say(f"on its way: {_on_its_way(left)}")
            if time.monotonic() > deadline:
                self._screen.say("that is too long", "red")
                return
            await asyncio.sleep(2)
        self._screen.say("quiet")

    async def _progress(self, load: Load, clients: list[Client], first_event: int) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY)
            frames = sum(client.frames for client in clients)
            said = f"{load.answered} of {len(load.asks)} answered, {len(load.decisions)} decided, {frames} frames"
            with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with store.connect(self._stage.database_url) as connection:
                    said += f"; on its way: {_on_its_way(await store.count_open(connection, first_event))}"
            self._screen.say(said)


def _on_its_way(left: asyncpg.Record) -> str:
    return ", ".join(f"{count} {what}" for what, count in left.items())
