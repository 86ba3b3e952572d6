"""One run: load and faults in parallel, a wait until all work is done, then the checks."""

import asyncio
import contextlib
import time
from datetime import timedelta

import asyncpg

from chaos import checks, store
from chaos.api_client import ApiClient, open_api_client
from chaos.browsers import Browser, open_browsers
from chaos.environment import ChaosEnvironment
from chaos.faults import Faults
from chaos.load import Load
from chaos.people import People, create_people
from chaos.screen import Screen
from chaos.store import Connection
from tablebell_tools.audit.check import Finding, audit

PROGRESS_EVERY = 5.0
DONE_LIMIT = 180.0
CATCH_UP_LIMIT = 30.0


class Run:
    def __init__(
        self, environment: ChaosEnvironment, screen: Screen, *, seconds: float, rate: float, seed: int
    ) -> None:
        self._environment = environment
        self._screen = screen
        self._seconds = seconds
        self._rate = rate
        self._seed = seed

    async def run(self) -> list[Finding]:
        environment = self._environment
        began = time.monotonic()
        async with store.connect(environment.database_url) as connection:
            first_event = await store.next_event(connection)
            people = await create_people(connection)
        async with (
            open_api_client(environment.api_urls, environment.tokens) as api,
            open_browsers(people.with_browsers(), environment.gateway_urls, api, environment.tokens) as browsers,
        ):
            load, faults = Load(api, people, self._seed), Faults(environment, self._screen, self._seed)
            await self._apply_load_and_faults(load, faults, browsers, first_event)
            self._screen.say(f"faults: {', '.join(f'{what} ({count})' for what, count in faults.counts.items())}")
            made = f"{load.answered} reservations in {load.seconds:.0f} s, {len(load.decisions)} decisions"
            self._screen.say(f"{made}, {api.lost_answers} answers lost")
            await environment.restore()
            async with store.connect(environment.database_url) as connection:
                await self._wait_until_done(connection, first_event)
                compared = await self._compare(connection, load, people, api, browsers)
                reach = timedelta(seconds=time.monotonic() - began + 5)
                audited = await audit(connection, reach, settle=timedelta(0))
            return [*compared, checks.check_services(faults.exited, len(environment.services)), *audited]

    async def _apply_load_and_faults(
        self, load: Load, faults: Faults, browsers: list[Browser], first_event: int
    ) -> None:
        self._screen.say(f"{self._rate:g} reservations a second for {self._seconds:g} s, seed {self._seed}")
        progress = asyncio.create_task(self._progress(load, browsers, first_event), name="progress")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(load.run(self._rate, self._seconds))
                tasks.create_task(faults.run(self._seconds, load.over))
        finally:
            progress.cancel()
            await asyncio.gather(progress, return_exceptions=True)

    async def _compare(
        self, connection: Connection, load: Load, people: People, api: ApiClient, browsers: list[Browser]
    ) -> list[Finding]:
        deadline = time.monotonic() + CATCH_UP_LIMIT
        inboxes = await checks.read_inboxes(connection, api, browsers)
        while not all(inbox.matches for inbox in inboxes) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)  # wait for the last frames
            inboxes = await checks.read_inboxes(connection, api, browsers)
        arrivals = await checks.received_by_providers(self._environment.sandbox_url)
        return [
            *checks.check_requests(load, await store.list_reservations(connection, people.customers)),
            *checks.check_decisions(load, await store.list_events(connection, people.customers)),
            *checks.check_deliveries(await store.list_sends(connection), arrivals),
            *checks.check_browsers(inboxes),
        ]

    async def _wait_until_done(self, connection: Connection, first_event: int) -> None:
        """Returns when no work is open, or after a limit."""
        deadline = time.monotonic() + DONE_LIMIT
        while any((left := await store.count_open(connection, first_event)).values()):
            self._screen.say(f"open: {_describe(left)}")
            if time.monotonic() > deadline:
                self._screen.say("gave up waiting", "red")
                return
            await asyncio.sleep(2)
        self._screen.say("all work is done")

    async def _progress(self, load: Load, browsers: list[Browser], first_event: int) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY)
            frames = sum(browser.frames for browser in browsers)
            text = f"{load.answered} of {len(load.asks)} answered, {len(load.decisions)} decided, {frames} frames"
            with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                async with store.connect(self._environment.database_url) as connection:
                    text += f"; open: {_describe(await store.count_open(connection, first_event))}"
            self._screen.say(text)


def _describe(left: asyncpg.Record) -> str:
    return ", ".join(f"{count} {what}" for what, count in left.items())
