"""Runs the test suites in lanes, side by side. A lane has servers of its own, since some tests stop or block them."""

import asyncio
import fcntl
import re
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tablebell_local.instance import PROJECT, Instance
from tablebell_local.stack import Stack
from tablebell_local.testrun import bring_down, bring_up_servers, environment, is_kept, is_last_user, outer_environment

LANES = 2
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")


class Lanes:
    def __init__(self, instance: Instance, suites: Sequence[str]) -> None:
        self._instance = instance
        self._suites = deque(suites)
        self._counts: Counter[str] = Counter()
        self._failed: list[str] = []

    async def run(self) -> int:
        """The exit code: 0 if every suite passed. SIGTERM ends the suites that run, and then their servers."""
        task = asyncio.current_task()
        if task is not None:
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        names = [self._instance.name, *(f"{self._instance.name}-{number}" for number in range(2, LANES + 1))]
        async with AsyncExitStack() as servers:
            state = self._instance.directory.parent
            stacks = [await servers.enter_async_context(_servers(Instance.named(name, state))) for name in names]
            await asyncio.gather(*(self._run_lane(stack) for stack in stacks))
        for suite in self._failed:
            print(f"failed: {suite}")
        print(", ".join(f"{self._counts[what]} {what}" for what in ("passed", "failed", "skipped")))
        return 1 if self._failed else 0

    async def _run_lane(self, stack: Stack) -> None:
        while self._suites:
            suite = self._suites.popleft()
            output = stack.instance.path("logs", f"{suite.replace('/', '-')}.txt")
            started = time.monotonic()
            code = await _pytest(stack, suite, output)
            self._report(suite, output, code, time.monotonic() - started)

    def _report(self, suite: str, output: Path, code: int, seconds: float) -> None:
        text = output.read_text(errors="replace")
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        for count, what in COUNTS.findall(last):
            self._counts["failed" if what.startswith("error") else what] += int(count)
        if code:
            self._failed.append(suite)
            print(text)
        print(f"{suite}: {last.strip('= ')} ({seconds:.0f} s)", flush=True)


async def _pytest(stack: Stack, suite: str, output: Path) -> int:
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pytest", suite,
            cwd=PROJECT, env=outer_environment() | environment(stack), stdout=file, stderr=file,
        )  # fmt: skip
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise


@asynccontextmanager
async def _servers(instance: Instance) -> AsyncIterator[Stack]:
    instance.create()
    with instance.path("users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        stack = Stack(instance)
        try:
            await bring_up_servers(stack)
            yield stack
        finally:
            if is_last_user(users.fileno()) and not is_kept(instance):
                await bring_down(stack)
