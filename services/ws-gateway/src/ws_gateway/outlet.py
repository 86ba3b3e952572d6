"""When what is owed to the sockets is written: at once, or, right after a burst, gathered for a few milliseconds.

A write is a system call, and that is what a frame costs. Under a load that keeps a process busy, what a socket is owed
meanwhile leaves in one write instead of several; a frame that comes alone waits for nobody.
"""

import asyncio
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)

BURST = 100
GATHER_SECONDS = 0.005


class Debtor(Protocol):
    def pay(self) -> None:
        """Write what is owed."""


class Outlet:
    def __init__(self) -> None:
        self._debtors: list[Debtor] = []
        self._gather_until = 0.0

    def add(self, debtor: Debtor) -> None:
        """It owes something, and is paid soon; call it once until then."""
        self._debtors.append(debtor)
        if len(self._debtors) == 1:
            loop = asyncio.get_running_loop()
            if loop.time() < self._gather_until:
                loop.call_at(self._gather_until, self._pay)
            else:
                loop.call_soon(self._pay)

    def _pay(self) -> None:
        debtors, self._debtors = self._debtors, []
        for debtor in debtors:
            try:
                debtor.pay()
            except Exception:  # one bad socket must not cost the others their frames
                log.exception("socket_not_written")
        if len(debtors) >= BURST:
            self._gather_until = asyncio.get_running_loop().time() + GATHER_SECONDS
