"""Wake-ups: committed work is announced by NOTIFY, so that workers need not wait for their poll.

An announcement is only a hint. It may be lost, duplicated or late, and the poll finds the work in any case. It is sent
after the commit in its own transaction: a NOTIFY inside the business transaction serialises commits.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe
from tablebell.postgres import Pool, connect

log = structlog.get_logger(__name__)

DEBOUNCE_SECONDS = 0.005
RECONNECT_SECONDS = 1.0


class Wakeup:
    """An event that a loop waits for. `now` wakes the loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def now(self) -> None:
        self._event.set()

    async def wait(self, seconds: float, stop: Stop) -> bool:
        """Returns True if woken, False after `seconds` or at a stop. A wake-up before the call counts."""
        woken = asyncio.ensure_future(self._event.wait())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({woken, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            stopped.cancel()
        was_set = self._event.is_set()
        self._event.clear()
        return was_set


class WakeupSender:
    """Announces new work on a channel. The first announcement is sent at once, a burst after it as one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._due: set[str] = set()
        self._sending: asyncio.Task[None] | None = None

    def announce(self, channel: str) -> None:
        """Call it after the commit. It never waits and never fails: the poll is the safety net."""
        self._due.add(channel)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send(), name="announce")

    async def _send(self) -> None:
        try:
            while self._due:
                channels, self._due = sorted(self._due), set()
                await self._pool.execute("SELECT pg_notify(channel, '') FROM unnest($1::text[]) AS channel", channels)
                await asyncio.sleep(DEBOUNCE_SECONDS)
        except OUTAGES as outage:
            log.warning("announcement_lost", error=describe(outage))
        finally:
            self._sending = None

    async def close(self) -> None:
        """Wait until pending announcements are sent."""
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=1.0)


@asynccontextmanager
async def open_wakeup_sender(pool: Pool) -> AsyncIterator[WakeupSender]:
    sender = WakeupSender(pool)
    try:
        yield sender
    finally:
        await sender.close()


class WakeupListener:
    """One connection that listens for all loops of a process, and reconnects when it is lost."""

    def __init__(self, url: SecretStr, service: str) -> None:
        self._url = url
        self._service = service
        self._wakeups: dict[str, list[Wakeup]] = {}
        self.connected = False

    def subscribe(self, channel: str) -> Wakeup:
        """Returns a Wakeup for announcements on `channel`. Call it before `run`."""
        wakeup = Wakeup()
        self._wakeups.setdefault(channel, []).append(wakeup)
        return wakeup

    async def run(self, stop: Stop) -> None:
        while not stop.requested:
            try:
                await self._listen(stop)
            except OUTAGES as outage:
                log.warning("listener_lost", error=describe(outage))
                await stop.sleep(RECONNECT_SECONDS)
            finally:
                self.connected = False

    async def _listen(self, stop: Stop) -> None:
        connection = await connect(self._url, f"{self._service} listener")
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            for channel in self._wakeups:
                await connection.add_listener(channel, self._on_notify)
            self.connected = True
            self._wake_all()  # announcements may have been missed while it was disconnected
            await _either(lost, stop)
        finally:
            with contextlib.suppress(*OUTAGES):
                await connection.close(timeout=1.0)

    def _on_notify(self, _connection: object, _pid: int, channel: str, _payload: object) -> None:
        for wakeup in self._wakeups.get(channel, ()):
            wakeup.now()

    def _wake_all(self) -> None:
        for wakeups in self._wakeups.values():
            for wakeup in wakeups:
                wakeup.now()


async def _either(lost: asyncio.Event, stop: Stop) -> None:
    waiting = {asyncio.ensure_future(lost.wait()), asyncio.ensure_future(stop.wait())}
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
