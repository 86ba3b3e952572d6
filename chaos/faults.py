"""What goes wrong, and when: each fault at its share of the run, and a random kill -9 every two seconds."""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import httpx

from chaos import store
from chaos.screen import Screen
from chaos.stage import Stage
from tablebell_local.part import Part
from tablebell_local.processes import end, find

KILL_EVERY = 2.0
WATCH_EVERY = 1.0
BEYOND_LEASE = 2.0
STALLED = ("channel-dispatcher", "event-relay")
SMTP_SHARE = 1 / 3  # of the run: 20 s of a minute
FAULT = "yellow"


class Faults:
    def __init__(self, stage: Stage, screen: Screen, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        """Services that ended without being killed."""
        self._stage = stage
        self._screen = screen
        self._random = random.Random(seed)  # noqa: S311 - a run is to be repeatable, not secret
        self._killed: set[str] = set()

    async def run(self, seconds: float, over: asyncio.Event) -> None:
        """Kills go on until the load is over; when this returns, everything has gone wrong and been started again."""
        plan: list[tuple[float, Callable[[float], Awaitable[None]]]] = [
            (0.10, self.refuse_smtp),
            (0.25, self.restart_rabbitmq),
            (0.50, self.restart_postgres),
            (0.70, self.terminate_backends),
            (0.30, self.stall_workers),
            (0.80, self.kill_gateway),
            (0.90, self.terminate_backends),
        ]
        async with asyncio.TaskGroup() as watching:
            watch = watching.create_task(self._watch())
            async with asyncio.TaskGroup() as faults:
                faults.create_task(self._kill_now_and_then(over))
                for share, fault in plan:
                    faults.create_task(_later(share * seconds, fault, seconds))
            watch.cancel()

    async def _kill_now_and_then(self, over: asyncio.Event) -> None:
        """By the clock, also while another kill is still going on."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with asyncio.TaskGroup() as kills:
            while not over.is_set():
                due += KILL_EVERY
                await asyncio.sleep(due - loop.time())
                living = [each for each in self._stage.services if each.name not in self._killed]
                kills.create_task(self._kill(self._random.choice(living)))

    async def kill_gateway(self, _seconds: float) -> None:
        gateways = [each for each in self._stage.services if each.name.startswith("ws-gateway")]
        await self._kill(next((each for each in gateways if each.name not in self._killed), gateways[0]))

    async def _kill(self, part: Part) -> None:
        if part.name in self._killed:
            return
        self.counts["kill -9"] += 1
        self._screen.say(f"kill -9 {part.name}", FAULT)
        self._killed.add(part.name)
        try:
            await part.kill()
            await part.start()
        finally:
            self._killed.discard(part.name)

    async def stall_workers(self, _seconds: float) -> None:
        """A dispatcher and a relay stand still for longer than their leases last, and go on."""
        down = self._stage.lease_seconds + BEYOND_LEASE
        workers = [each for each in self._stage.services if each.name in STALLED and each.name not in self._killed]
        self.counts["worker stopped beyond its lease"] += len(workers)
        self._screen.say(f"{', '.join(each.name for each in workers)} stand still for {down:.0f} s", FAULT)
        self._killed.update(each.name for each in workers)
        pids = [pid for each in workers for pid in each.pids()]
        try:
            _signal(pids, signal.SIGSTOP)
            await asyncio.sleep(down)
        finally:
            _signal(pids, signal.SIGCONT)
            self._killed.difference_update(each.name for each in workers)

    async def refuse_smtp(self, seconds: float) -> None:
        self.counts["SMTP refused"] += 1
        down = seconds * SMTP_SHARE
        self._screen.say(f"SMTP refuses connections for {down:.0f} s", FAULT)
        async with httpx.AsyncClient(base_url=self._stage.sandbox_url, timeout=10, trust_env=False) as sandbox:
            answer = await sandbox.put("/api/faults/EMAIL", json=[{"kind": "refuse", "for_seconds": down}])
            answer.raise_for_status()

    async def restart_rabbitmq(self, _seconds: float) -> None:
        await self._restart(self._stage.stack.rabbitmq, "RabbitMQ killed", signal.SIGKILL)

    async def restart_postgres(self, _seconds: float) -> None:
        await self._restart(self._stage.stack.postgres, "PostgreSQL stopped immediately", signal.SIGQUIT)

    async def _restart(self, part: Part, what: str, how: signal.Signals) -> None:
        self.counts[what] += 1
        self._screen.say(what, FAULT)
        await end(part.pids, ((how, 10.0),))
        await part.start()
        await _until_healthy(part)
        self._screen.say(f"{part.name} is back", FAULT)

    async def terminate_backends(self, _seconds: float) -> None:
        await _until_healthy(self._stage.stack.postgres)
        self.counts["backends terminated"] += 1
        async with store.connect(self._stage.database_url) as connection:
            count = await store.terminate_backends(connection)
        self._screen.say(f"{count} connections to PostgreSQL terminated", FAULT)

    async def _watch(self) -> None:
        """Starts again what ended by itself, as a supervisor would, and keeps count of it."""
        missing: set[str] = set()
        while True:
            await asyncio.sleep(WATCH_EVERY)
            running = {process.part for process in find(self._stage.stack.instance.directory)}
            # One look may miss a process that is just being started; it is there at the next.
            before, missing = missing, {each.name for each in self._stage.services} - running - self._killed
            for service in self._stage.services:
                if service.name in before & missing:
                    self.ended[service.name] += 1
                    self._screen.say(f"{service.name} ended by itself; see {service.log}", "red")
                    await service.start()


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def _until_healthy(part: Part) -> None:
    while (problem := await part.problem()) is not None:
        if part.has_ended():
            raise RuntimeError(f"{part.name} did not come back: {problem}; see {part.log}")
        await asyncio.sleep(0.2)


async def _later(seconds: float, fault: Callable[[float], Awaitable[None]], run: float) -> None:
    await asyncio.sleep(seconds)
    await fault(run)
