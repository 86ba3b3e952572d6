"""The partitions that this replica owns: replicas divide them among themselves, and each partition has one owner.

A partition is owned by a session-level advisory lock `(namespace, partition)` on a connection of its own, so that
PostgreSQL releases it as soon as the owner's connection ends. A member also locks a key of its own,
`(namespace, 1000 + n)`: the number of these keys is the number of members, and gives each member's share.

A member that joins, leaves or releases partitions sends a notification. Members listen on the connection that holds
their locks: while it is open no notification is missed, and when it is lost the ownership is lost too. So a member that
owns all partitions never polls. A crashed member sends nothing, so each member waits for the lock of the next one, in a
ring (`PeerWatch`).

The locks divide the work; they are no fencing. An owner that has lost a partition without knowing it does no harm,
because every write needs the token of a lease.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES, describe
from tablebell.partitions.assignment import FIRST_MEMBER, LAST_MEMBER, Assignment
from tablebell.partitions.peer_watch import PeerWatch
from tablebell.postgres import Connection, connect
from tablebell.sqlfile import load_queries
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

RECONNECT_SECONDS = 0.5
POLL_SECONDS = 30.0
POLL_SECONDS_ALONE = 86_400.0

SQL = load_queries("tablebell.partitions", "sql", "locks.sql")

OnAcquired = Callable[[Connection, Sequence[int]], Awaitable[object]]


class Partitions:
    """`on_acquired` runs after partitions are locked and before they count as owned: it releases the leases of an owner
    that crashed. `wakeup` is set when partitions were added."""

    def __init__(self, url: SecretStr, service: str, namespace: int, on_acquired: OnAcquired, wakeup: Wakeup) -> None:
        self._url = url
        self._service = service
        self._namespace = namespace
        self._channel = f"partitions_{namespace}"
        self._on_acquired = on_acquired
        self._wakeup = wakeup
        self._change = Wakeup()
        self._uses: set[asyncio.Future[None]] = set()
        self._peer_watch = PeerWatch(url, service, namespace, self._channel)
        self._members: tuple[int, ...] = ()
        self.owned: frozenset[int] = frozenset()
        self.joined = False

    @contextmanager
    def use(self) -> Iterator[frozenset[int]]:
        """The partitions that we own. None of them is released before the block ends."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._uses.add(done)
        try:
            yield self.owned
        finally:
            self._uses.discard(done)
            done.set_result(None)

    async def check(self) -> None:
        """Raises while we are not a member."""
        if not self.joined:
            raise ConnectionError("not a member: no partition can be owned")

    async def run(self, stop: Stop) -> None:
        while not stop.requested:
            try:
                await self._run_session(stop)
            except OUTAGES as outage:
                log.warning("membership_lost", error=describe(outage))
                await stop.sleep(RECONNECT_SECONDS)

    async def _run_session(self, stop: Stop) -> None:
        # Otherwise on_acquired would release the leases of work that this process is still finishing.
        await self._wait_for_uses()
        connection = await connect(self._url, f"{self._service} partitions")
        try:
            connection.add_termination_listener(self._on_connection_lost)
            await connection.add_listener(self._channel, self._on_notify)
            await connection.fetchval(SQL["join"], self._namespace, FIRST_MEMBER, LAST_MEMBER)
            await connection.execute(SQL["announce"], self._channel)
            self.joined = True
            while not stop.requested:
                assignment = await self._rebalance(connection)
                self._peer_watch.watch(assignment.next_member)
                await self._change.wait(POLL_SECONDS_ALONE if assignment.owns_all else POLL_SECONDS, stop)
            await self._leave(connection)
        finally:
            self._reset()
            await self._peer_watch.close()
            with contextlib.suppress(*OUTAGES):
                await connection.close(timeout=1.0)

    async def _rebalance(self, connection: Connection) -> Assignment:
        """Release the partitions beyond our share, or acquire free ones up to it."""
        while True:
            locks = await connection.fetch(SQL["find_locks"], self._namespace, FIRST_MEMBER)
            assignment = Assignment.read((lock["key"], lock["mine"]) for lock in locks)
            departed, self._members = set(self._members) - set(assignment.members), assignment.members
            if departed:
                # The member may have crashed before another one watched it, so the others may still count it.
                await connection.execute(SQL["announce"], self._channel)
            if assignment.surplus:
                await self._release(connection, assignment.surplus)
            elif not (assignment.wanted and await self._acquire(connection, assignment.wanted)):
                return assignment

    async def _acquire(self, connection: Connection, wanted: Sequence[int]) -> bool:
        acquired = [lock["partition"] for lock in await connection.fetch(SQL["acquire"], self._namespace, wanted)]
        if acquired:
            await self._on_acquired(connection, acquired)
            self.owned |= frozenset(acquired)
            self._wakeup.now()
            log.info("partitions_acquired", acquired=acquired, owned=sorted(self.owned))
        return bool(acquired)

    async def _release(self, connection: Connection, surplus: Sequence[int]) -> None:
        self.owned -= frozenset(surplus)
        await self._wait_for_uses()
        await connection.execute(SQL["release"], self._namespace, surplus, self._channel)
        log.info("partitions_released", released=surplus, owned=sorted(self.owned))

    async def _leave(self, connection: Connection) -> None:
        self._reset()
        await self._wait_for_uses()
        await connection.execute(SQL["leave"], self._channel)

    async def _wait_for_uses(self) -> None:
        """Wait for the uses that have begun. A use that begins now sees only the partitions that stay ours."""
        if self._uses:
            await asyncio.wait(set(self._uses))

    def _reset(self) -> None:
        self.owned, self.joined, self._members = frozenset(), False, ()

    def _on_connection_lost(self, _connection: object) -> None:
        self._reset()
        self._change.now()  # the next statement on the connection fails, and `run` joins again

    def _on_notify(self, *_: object) -> None:
        self._change.now()
