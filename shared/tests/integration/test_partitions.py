"""Partitions are divided fairly, each has one owner, and they move at once when an owner leaves or crashes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tablebell.lifecycle import Stop
from tablebell.partitions import PARTITIONS, Partitions
from tablebell.postgres import Connection, Pool
from tablebell.testing import Database, eventually
from tablebell.wakeups import Wakeup

NAMESPACE = 99


@dataclass
class Member:
    database: Database
    namespace: int = NAMESPACE
    stop: Stop = field(default_factory=Stop)
    acquired: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        url = self.database.url_of("event_relay")
        self.partitions = Partitions(url, "test", self.namespace, self._on_acquired, Wakeup())
        self.running = asyncio.create_task(self.partitions.run(self.stop))

    async def _on_acquired(self, _: Connection, partitions: Sequence[int]) -> None:
        assert not set(partitions) & self.partitions.owned, "on_acquired ran after the partitions counted as owned"
        self.acquired += partitions

    async def leave(self) -> None:
        self.stop.request()
        await self.running


@asynccontextmanager
async def members(database: Database, count: int) -> AsyncIterator[list[Member]]:
    present = [Member(database) for _ in range(count)]
    try:
        yield present
    finally:
        for member in present:
            await member.leave()


def shares(present: Sequence[Member]) -> list[int]:
    return sorted(len(member.partitions.owned) for member in present)


def all_have_one_owner(present: Sequence[Member]) -> bool:
    owned = [partition for member in present for partition in member.partitions.owned]
    assert len(owned) == len(set(owned)), "two members believe they own the same partition"
    return len(owned) == PARTITIONS


async def test_a_single_member_owns_all_partitions_after_on_acquired_ran(database: Database) -> None:
    async with members(database, 1) as (alone,):
        await eventually(lambda: alone.partitions.owned == frozenset(range(PARTITIONS)))
        assert sorted(alone.acquired) == list(range(PARTITIONS))


@pytest.mark.parametrize(("count", "fair"), [(2, [8, 8]), (3, [5, 5, 6]), (5, [3, 3, 3, 3, 4])])
async def test_a_member_that_joins_gets_a_fair_share(database: Database, count: int, fair: list[int]) -> None:
    async with members(database, 1) as present:
        await eventually(lambda: shares(present) == [PARTITIONS])
        async with members(database, count - 1) as others:
            await eventually(lambda: shares([*present, *others]) == fair, within=5)
            assert all_have_one_owner([*present, *others])
        await eventually(lambda: shares(present) == [PARTITIONS], within=5)


async def test_a_member_that_leaves_releases_its_partitions_at_once(database: Database) -> None:
    async with members(database, 3) as present:
        await eventually(lambda: shares(present) == [5, 5, 6])
        await present[1].leave()
        assert present[1].partitions.owned == frozenset()
        await eventually(lambda: shares([present[0], present[2]]) == [8, 8], within=5)
        assert all_have_one_owner(present)


async def test_no_partition_is_released_while_it_is_in_use(database: Database) -> None:
    async with members(database, 1) as (first,):
        await eventually(lambda: len(first.partitions.owned) == PARTITIONS)
        async with members(database, 1) as (second,):
            with first.partitions.use() as owned:
                assert len(owned) == PARTITIONS
                await eventually(lambda: len(first.partitions.owned) == 8)
                await asyncio.sleep(0.2)
                assert second.partitions.owned == frozenset()
            await eventually(lambda: len(second.partitions.owned) == 8, within=5)


async def test_a_lost_connection_ends_ownership_until_the_member_joins_again(database: Database, pool: Pool) -> None:
    async with members(database, 2) as present:
        await eventually(lambda: shares(present) == [8, 8])
        present[0].acquired.clear()
        present[1].acquired.clear()
        await pool.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND classid = $1::integer::oid AND objid = $2::integer::oid",
            NAMESPACE,
            min(present[0].partitions.owned),
        )
        await eventually(lambda: not present[0].partitions.joined, every=0.001)
        await eventually(lambda: shares(present) == [8, 8], within=10)
        assert all_have_one_owner(present)
        assert present[0].acquired or present[1].acquired


@pytest.mark.timeout(60)
async def test_the_partitions_of_a_killed_member_move_as_soon_as_its_connection_ends(database: Database) -> None:
    """Faster than any poll: the member that watches it detects it."""
    async with members(database, 2) as present:
        killed = await start_member(database)
        await eventually(lambda: shares(present) == [5, 6] or shares(present) == [5, 5], within=20)
        os.kill(killed.pid, signal.SIGKILL)
        await killed.wait()
        await eventually(lambda: shares(present) == [8, 8], within=5)
        assert all_have_one_owner(present)


@pytest.mark.timeout(60)
async def test_a_member_that_crashes_before_it_is_watched_is_detected(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member that would watch it has released partitions and not read the locks again; the other one counts it."""
    async with members(database, 1) as (first,):
        await eventually(lambda: shares([first]) == [PARTITIONS])
        async with members(database, 1) as (watcher,):
            present = [first, watcher]
            await eventually(lambda: shares(present) == [8, 8])
            may_continue = asyncio.Event()
            release = watcher.partitions._release

            async def release_and_pause(connection: Connection, surplus: Sequence[int]) -> None:
                await release(connection, surplus)
                await may_continue.wait()

            monkeypatch.setattr(watcher.partitions, "_release", release_and_pause)
            killed = await start_member(database)
            await eventually(lambda: shares(present) == [5, 6] or shares(present) == [5, 5], within=20)
            await asyncio.sleep(0.5)
            os.kill(killed.pid, signal.SIGKILL)
            await killed.wait()
            await asyncio.sleep(0.5)
            may_continue.set()
            await eventually(lambda: shares(present) == [8, 8], within=5)
            assert all_have_one_owner(present)


PROGRAM = """
import asyncio, sys
from pydantic import SecretStr
from tablebell.lifecycle import Stop
from tablebell.partitions import Partitions
from tablebell.wakeups import Wakeup

async def on_acquired(connection, partitions): pass

asyncio.run(Partitions(SecretStr(sys.argv[1]), "killed", int(sys.argv[2]), on_acquired, Wakeup()).run(Stop()))
"""


async def start_member(database: Database) -> asyncio.subprocess.Process:
    url = database.url_of("event_relay").get_secret_value()
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, str(NAMESPACE), stdout=asyncio.subprocess.DEVNULL
    )


async def test_namespaces_are_independent(database: Database) -> None:
    async with members(database, 1) as (alone,):
        elsewhere = Member(database, NAMESPACE + 1)
        await eventually(lambda: shares([alone, elsewhere]) == [PARTITIONS, PARTITIONS])
        await elsewhere.leave()
