"""The faults: each at its share of the run, and a random kill -9 every two seconds."""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import httpx

from chaos import store
from chaos.environment import ChaosEnvironment
from chaos.screen import Screen
from tablebell_local.process import ManagedProcess, wait_for_health
from tablebell_local.processes import find, stop

KILL_EVERY = 2.0
WATCH_EVERY = 1.0
BEYOND_LEASE = 2.0
HEALTH_LIMIT = 120.0
STALLED = ("channel-dispatcher", "event-relay")
SMTP_SHARE = 1 / 3  # of the run: 20 s of a minute
ALARM_SHARE = 1 / 6
DEFAULT_WATERMARK = "0.4"
UNAVAILABLE_SHARE = 1.0  # 60 s of a minute
FAULT = "yellow"


class Faults:
    def __init__(self, environment: ChaosEnvironment, screen: Screen, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.exited: Counter[str] = Counter()
        """Services that exited without being killed."""
        self._environment = environment
        self._screen = screen
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._killed: set[str] = set()
        # One fault at a time per server: on a busy machine the next is due before the last one is over.
        self._broker = asyncio.Lock()
        self._database = asyncio.Lock()

    async def run(self, seconds: float, over: asyncio.Event) -> None:
        """Kills continue until the load is over. Returns when all faults are over and everything was restarted."""
        plan: list[tuple[float, Callable[[float], Awaitable[None]]]] = [
            (0.10, self.refuse_smtp),
            (0.25, self.restart_rabbitmq),
            (0.40, self.raise_alarm),
            (0.40, self.answer_503),
            (0.50, self.restart_postgres),
            (0.60, self.switch_over_postgres),
            (0.62, self.delete_listeners_queue),
            (0.65, self.cancel_gateway_consumer),
            (0.70, self.terminate_backends),
            (0.30, self.stall_workers),
            (0.80, self.kill_gateway),
            (0.90, self.terminate_backends),
        ]
        async with asyncio.TaskGroup() as watching:
            watch = watching.create_task(self._watch())
            async with asyncio.TaskGroup() as faults:
                faults.create_task(self._kill_periodically(over))
                for share, fault in plan:
                    faults.create_task(_later(share * seconds, fault, seconds))
            watch.cancel()

    async def _kill_periodically(self, over: asyncio.Event) -> None:
        """On schedule, also while another kill is in progress."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with asyncio.TaskGroup() as kills:
            while not over.is_set():
                due += KILL_EVERY
                await asyncio.sleep(due - loop.time())
                alive = [each for each in self._environment.services if each.name not in self._killed]
                kills.create_task(self._kill(self._random.choice(alive)))

    async def kill_gateway(self, _seconds: float) -> None:
        gateways = [each for each in self._environment.services if each.name.startswith("ws-gateway")]
        await self._kill(next((each for each in gateways if each.name not in self._killed), gateways[0]))

    async def _kill(self, process: ManagedProcess) -> None:
        if process.name in self._killed:
            return
        self.counts["kill -9"] += 1
        self._screen.say(f"kill -9 {process.name}", FAULT)
        self._killed.add(process.name)
        try:
            await process.kill()
            await process.start()
        finally:
            self._killed.discard(process.name)

    async def stall_workers(self, _seconds: float) -> None:
        """Stops a dispatcher and a relay for longer than their leases, then continues them."""
        down = self._environment.lease_seconds + BEYOND_LEASE
        workers = [
            each for each in self._environment.services if each.name in STALLED and each.name not in self._killed
        ]
        self.counts["worker stopped beyond its lease"] += len(workers)
        self._screen.say(f"{', '.join(each.name for each in workers)} stopped for {down:.0f} s", FAULT)
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
        async with httpx.AsyncClient(base_url=self._environment.sandbox_url, timeout=10, trust_env=False) as sandbox:
            answer = await sandbox.put("/api/faults/EMAIL", json=[{"kind": "refuse", "for_seconds": down}])
            answer.raise_for_status()

    async def answer_503(self, seconds: float) -> None:
        """The provider of SMS or push answers 503."""
        channel = self._random.choice(("SMS", "PUSH"))
        self.counts[f"{channel} answers 503"] += 1
        down = seconds * UNAVAILABLE_SHARE
        self._screen.say(f"{channel} answers 503 for {down:.0f} s", FAULT)
        fault = {"kind": "http", "status": 503, "for_seconds": down}
        async with httpx.AsyncClient(base_url=self._environment.sandbox_url, timeout=10, trust_env=False) as sandbox:
            (await sandbox.put(f"/api/faults/{channel}", json=[fault])).raise_for_status()

    async def restart_rabbitmq(self, _seconds: float) -> None:
        async with self._broker:
            await self._restart(self._environment.stack.rabbitmq, "RabbitMQ killed", signal.SIGKILL)

    async def raise_alarm(self, seconds: float) -> None:
        """RabbitMQ accepts no messages."""
        async with self._broker:
            down = seconds * ALARM_SHARE
            rabbitmq = self._environment.stack.rabbitmq
            await rabbitmq.control("set_vm_memory_high_watermark", "0")
            self.counts["RabbitMQ alarm"] += 1
            self._screen.say(f"RabbitMQ's memory alarm is on for {down:.0f} s", FAULT)
            await asyncio.sleep(down)
            await rabbitmq.control("set_vm_memory_high_watermark", DEFAULT_WATERMARK)

    async def delete_listeners_queue(self, _seconds: float) -> None:
        """With its messages: the listener declares it again and reads the missed events from the outbox."""
        async with self._broker:
            name = self._random.choice(await self._consumed_queues("event-stream."))
            await self._environment.stack.rabbitmq.control("delete_queue", name)
            self.counts["queue deleted"] += 1
            self._screen.say(f"queue {name} deleted", FAULT)

    async def cancel_gateway_consumer(self, _seconds: float) -> None:
        """Deletes a gateway's queue, which cancels its consumer."""
        async with self._broker:
            name = self._random.choice(await self._consumed_queues("amq.gen-"))
            await self._environment.stack.rabbitmq.control("delete_queue", name)
            self.counts["consumer cancelled"] += 1
            self._screen.say("the queue of a gateway deleted", FAULT)

    async def _consumed_queues(self, prefix: str) -> list[str]:
        """The queues with a consumer. Waits for one, since the services may be starting."""
        while True:
            listed = await self._environment.stack.rabbitmq.control("-q", "list_queues", "name", "consumers")
            rows = [line.split() for line in listed.splitlines() if line.startswith(prefix)]
            if names := sorted(name for name, consumers in rows if consumers != "0"):
                return names
            await asyncio.sleep(0.2)

    async def restart_postgres(self, _seconds: float) -> None:
        async with self._database:
            primary = self._environment.stack.replication.primary
            await self._restart(primary, "PostgreSQL stopped immediately", signal.SIGQUIT)

    async def switch_over_postgres(self, _seconds: float) -> None:
        replication = self._environment.stack.replication
        async with self._database:
            self.counts["PostgreSQL switched over"] += 1
            self._screen.say(f"PostgreSQL is switched over to {replication.standby.name}", FAULT)
            await replication.switch_over()
            self._screen.say(f"{replication.primary.name} is the primary", FAULT)
            await replication.follow()
        self._screen.say(f"{replication.standby.name} is its standby", FAULT)

    async def _restart(self, process: ManagedProcess, what: str, how: signal.Signals) -> None:
        self.counts[what] += 1
        self._screen.say(what, FAULT)
        await stop(process.pids, ((how, 10.0),))
        await process.start()
        await _until_healthy(process)
        self._screen.say(f"{process.name} is healthy again", FAULT)

    async def terminate_backends(self, _seconds: float) -> None:
        async with self._database:
            await _until_healthy(self._environment.stack.replication.primary)
            self.counts["backends terminated"] += 1
            async with store.connect(self._environment.database_url) as connection:
                count = await store.terminate_backends(connection)
        self._screen.say(f"{count} connections to PostgreSQL terminated", FAULT)

    async def _watch(self) -> None:
        """Restarts services that exited by themselves, as a supervisor would, and counts them."""
        missing: set[str] = set()
        while True:
            await asyncio.sleep(WATCH_EVERY)
            running = {process.name for process in find(self._environment.stack.instance.directory)}
            # A single scan may miss a process that is just starting.
            before, missing = missing, {each.name for each in self._environment.services} - running - self._killed
            for service in self._environment.services:
                if service.name in before & missing:
                    self.exited[service.name] += 1
                    self._screen.say(f"{service.name} exited by itself; see {service.log}", "red")
                    await service.start()


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


async def _until_healthy(process: ManagedProcess) -> None:
    if (problem := await wait_for_health(process, HEALTH_LIMIT)) is not None:
        raise RuntimeError(f"{process.name} did not restart: {problem}; see {process.log}")


async def _later(seconds: float, fault: Callable[[float], Awaitable[None]], run: float) -> None:
    await asyncio.sleep(seconds)
    await fault(run)
