"""Which partitions are ours: replicas share them out between themselves, and each has one owner at a time.

A partition is owned through a session-level advisory lock `(namespace, partition)`, held on a connection of its own, so
that PostgreSQL gives it up for an owner that dies, at that moment. A member also holds a seat, `(namespace, 1000 + n)`:
the seats tell how many share, and so each member's part.

Who joins, leaves or gives something up announces it, on the connection that holds the locks: as long as that stands,
nothing announced is missed, and when it falls, so does the ownership. So a member that has everything asks nothing. One
that dies announces nothing, so each member waits for the lock of the seat after its own, in a ring.

The locks share out the work; they are no fence. An owner that does not know yet that it lost a partition does no harm,
since it shows a lease's token with whatever it writes.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe
from tablebell.partitions.assignment import FIRST_SEAT, LAST_SEAT, Assignment
from tablebell.partitions.peer_watch import PeerWatch
from tablebell.postgres import Connection, connect
from tablebell.sqlfile import load_queries
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

RECONNECT_SECONDS = 0.5
SURVEY_SECONDS = 30.0
FOR_EVER = 86_400.0

SQL = load_queries("tablebell.partitions", "sql", "locks.sql")

OnAcquired = Callable[[Connection, Sequence[int]], Awaitable[object]]


class Partitions:
    """`adopt` runs when partitions have become ours, before they count as owned: to free what their last owner held
    when it died. `wakeup` is called when there are more of them than before."""

    def __init__(self, url: SecretStr, service: str, namespace: int, adopt: OnAcquired, wakeup: Wakeup) -> None:
        self._url = url
        self._service = service
        self._namespace = namespace
        self._channel = f"partitions_{namespace}"
        self._adopt = adopt
        self._wakeup = wakeup
        self._change = Wakeup()
        self._uses: set[asyncio.Future[None]] = set()
        self._vigil = PeerWatch(url, service, namespace, self._channel)
        self._seats: tuple[int, ...] = ()
        self.owned: frozenset[int] = frozenset()
        self.joined = False

    @contextmanager
    def use(self) -> Iterator[frozenset[int]]:
        """What is ours now; none of it is handed over before the work on it is done."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._uses.add(done)
        try:
            yield self.owned
        finally:
            self._uses.discard(done)
            done.set_result(None)

    async def check(self) -> None:
        """Raises while we have no seat."""
        if not self.joined:
            raise ConnectionError("not a member: no partition can be owned")

    async def run(self, stop: Stop) -> None:
        while not stop.requested:
            try:
                await self._belong(stop)
            except OUTAGES as outage:
                log.warning("membership_lost", error=describe(outage))
                await stop.sleep(RECONNECT_SECONDS)

    async def _belong(self, stop: Stop) -> None:
        await self._quiet()  # or we would take from ourselves, as from the dead, what we are still about to finish
        connection = await connect(self._url, f"{self._service} partitions")
        try:
            connection.add_termination_listener(self._on_loss)
            await connection.add_listener(self._channel, self._on_notify)
            await connection.fetchval(SQL["take_seat"], self._namespace, FIRST_SEAT, LAST_SEAT)
            await connection.execute(SQL["announce"], self._channel)
            self.joined = True
            while not stop.requested:
                seating = await self._settle(connection)
                self._vigil.watch(seating.neighbour)
                await self._change.wait(FOR_EVER if seating.is_whole else SURVEY_SECONDS, stop)
            await self._leave(connection)
        finally:
            self._forget()
            await self._vigil.end()
            with contextlib.suppress(*OUTAGES):
                await connection.close(timeout=1.0)

    async def _settle(self, connection: Connection) -> Assignment:
        """Give up what is beyond our share, or take of what is free until we have it."""
        while True:
            locks = await connection.fetch(SQL["survey"], self._namespace, FIRST_SEAT)
            seating = Assignment.read((lock["key"], lock["mine"]) for lock in locks)
            departed, self._seats = set(self._seats) - set(seating.seats), seating.seats
            if departed:
                # It may have died before anybody watched it, and others may believe that it is still there.
                await connection.execute(SQL["announce"], self._channel)
            if seating.surplus:
                await self._give_up(connection, seating.surplus)
            elif not (seating.wanted and await self._take(connection, seating.wanted)):
                return seating

    async def _take(self, connection: Connection, wanted: Sequence[int]) -> bool:
        taken = [lock["partition"] for lock in await connection.fetch(SQL["take"], self._namespace, wanted)]
        if taken:
            await self._adopt(connection, taken)
            self.owned |= frozenset(taken)
            self._wakeup.now()
            log.info("partitions_taken", taken=taken, owned=sorted(self.owned))
        return bool(taken)

    async def _give_up(self, connection: Connection, surplus: Sequence[int]) -> None:
        self.owned -= frozenset(surplus)
        await self._quiet()
        await connection.execute(SQL["give_up"], self._namespace, surplus, self._channel)
        log.info("partitions_given_up", given_up=surplus, owned=sorted(self.owned))

    async def _leave(self, connection: Connection) -> None:
        self._forget()
        await self._quiet()
        await connection.execute(SQL["leave"], self._channel)

    async def _quiet(self) -> None:
        """Wait for the uses that have begun; those that begin now see only what stays ours."""
        if self._uses:
            await asyncio.wait(set(self._uses))

    def _forget(self) -> None:
        self.owned, self.joined, self._seats = frozenset(), False, ()

    def _on_loss(self, _connection: object) -> None:
        self._forget()
        self._change.now()  # the next statement on the connection fails, and we begin anew

    def _on_notify(self, *_: object) -> None:
        self._change.now()
