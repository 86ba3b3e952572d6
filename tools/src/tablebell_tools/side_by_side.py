"""Runs the test suites in lanes, side by side. A lane has its own servers, since some tests stop or block them."""

import asyncio
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tablebell_local.instance import PROJECT, Instance
from tablebell_local.stack import Stack
from tablebell_tools.shared_servers import shared_servers
from tablebell_tools.testrun import environment, exit_on_signals

LANES = 2
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")


class Lanes:
    def __init__(self, instance: Instance, suites: Sequence[str]) -> None:
        self._instance = instance
        self._suites = deque(suites)
        self._counts: Counter[str] = Counter()
        self._failed: list[str] = []

    def run(self) -> int:
        """Returns the exit code: 0 if every suite passed. SIGTERM ends the running suites, then their servers."""
        exit_on_signals()
        state = self._instance.directory.parent
        names = [self._instance.name, *(f"{self._instance.name}-{number}" for number in range(2, LANES + 1))]
        with ExitStack() as servers:
            stacks = [servers.enter_context(shared_servers(Instance.named(name, state))) for name in names]
            asyncio.run(self._run_lanes(stacks))
        for suite in self._failed:
            print(f"failed: {suite}")
        print(", ".join(f"{self._counts[what]} {what}" for what in ("passed", "failed", "skipped")))
        return 1 if self._failed else 0

    async def _run_lanes(self, stacks: Sequence[Stack]) -> None:
        async with asyncio.TaskGroup() as lanes:
            for stack in stacks:
                lanes.create_task(self._run_lane(stack))

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
            *(sys.executable, "-m", "pytest", suite), cwd=PROJECT, env=environment(stack), stdout=file, stderr=file
        )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
