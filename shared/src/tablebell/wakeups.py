"""Wake-ups: work is announced when it has been committed, so that nobody waits for a timer.

An announcement is a hint, never the truth: it may be lost, doubled or late, and the poll finds the work all the same.
It is sent after the commit, in a transaction of its own: a NOTIFY inside the business transaction would make commits
queue behind each other.
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
    """Where a loop waits; who has work for it calls `now`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def now(self) -> None:
        self._event.set()

    async def wait(self, seconds: float, stop: Stop) -> bool:
        """True when woken, False when the time is over or at a stop. A wake-up that came before the wait counts."""
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
    """Tells listeners that a channel has new work. The first call goes out at once, a burst after it as one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._due: set[str] = set()
        self._sending: asyncio.Task[None] | None = None

    def announce(self, channel: str) -> None:
        """Call it after the commit. Never waits and never fails: the poll is the safety net."""
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
        """Let what has been announced go out."""
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=1.0)


@asynccontextmanager
async def open_wakeup_sender(pool: Pool) -> AsyncIterator[WakeupSender]:
    announcer = WakeupSender(pool)
    try:
        yield announcer
    finally:
        await announcer.close()


class WakeupListener:
    """One connection that listens for all loops of a process, and comes back by itself when it is lost."""

    def __init__(self, url: SecretStr, service: str) -> None:
        self._url = url
        self._service = service
        self._wakeups: dict[str, list[Wakeup]] = {}
        self.connected = False

    def subscribe(self, channel: str) -> Wakeup:
        """Before `run`: what wakes up when `channel` is announced."""
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
            self._wake_all()  # what was announced while we were away
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
