"""Partitions are shared out fairly, each with one owner, and move on at once when an owner goes or dies."""

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
    adopted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        url = self.database.url_of("event_relay")
        self.partitions = Partitions(url, "test", self.namespace, self._adopt, Wakeup())
        self.running = asyncio.create_task(self.partitions.run(self.stop))

    async def _adopt(self, _: Connection, partitions: Sequence[int]) -> None:
        assert not set(partitions) & self.partitions.owned, "adopted after they counted as owned"
        self.adopted += partitions

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


async def test_one_member_owns_everything_having_adopted_it_first(database: Database) -> None:
    async with members(database, 1) as (alone,):
        await eventually(lambda: alone.partitions.owned == frozenset(range(PARTITIONS)))
        assert sorted(alone.adopted) == list(range(PARTITIONS))


@pytest.mark.parametrize(("count", "fair"), [(2, [8, 8]), (3, [5, 5, 6]), (5, [3, 3, 3, 3, 4])])
async def test_who_joins_gets_a_fair_share(database: Database, count: int, fair: list[int]) -> None:
    async with members(database, 1) as present:
        await eventually(lambda: shares(present) == [PARTITIONS])
        async with members(database, count - 1) as others:
            await eventually(lambda: shares([*present, *others]) == fair, within=5)
            assert all_have_one_owner([*present, *others])
        await eventually(lambda: shares(present) == [PARTITIONS], within=5)


async def test_who_leaves_hands_over_at_once(database: Database) -> None:
    async with members(database, 3) as present:
        await eventually(lambda: shares(present) == [5, 5, 6])
        await present[1].leave()
        assert present[1].partitions.owned == frozenset()
        await eventually(lambda: shares([present[0], present[2]]) == [8, 8], within=5)
        assert all_have_one_owner(present)


async def test_nothing_is_handed_over_before_the_work_on_it_is_done(database: Database) -> None:
    async with members(database, 1) as (first,):
        await eventually(lambda: len(first.partitions.owned) == PARTITIONS)
        async with members(database, 1) as (second,):
            with first.partitions.use() as owned:
                assert len(owned) == PARTITIONS
                await eventually(lambda: len(first.partitions.owned) == 8)
                await asyncio.sleep(0.2)
                assert second.partitions.owned == frozenset()
            await eventually(lambda: len(second.partitions.owned) == 8, within=5)


async def test_a_lost_connection_is_lost_ownership_until_it_is_acquired_anew(database: Database, pool: Pool) -> None:
    async with members(database, 2) as present:
        await eventually(lambda: shares(present) == [8, 8])
        present[0].adopted.clear()
        present[1].adopted.clear()
        await pool.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND classid = $1::integer::oid AND objid = $2::integer::oid",
            NAMESPACE,
            min(present[0].partitions.owned),
        )
        await eventually(lambda: not present[0].partitions.joined, every=0.001)
        await eventually(lambda: shares(present) == [8, 8], within=10)
        assert all_have_one_owner(present)
        assert present[0].adopted or present[1].adopted


@pytest.mark.timeout(60)
async def test_a_killed_members_partitions_move_on_as_soon_as_its_connection_is_gone(database: Database) -> None:
    """Well within any interval at which somebody might look: the ring notices it."""
    async with members(database, 2) as present:
        killed = await start_member(database)
        await eventually(lambda: shares(present) == [5, 6] or shares(present) == [5, 5], within=20)
        os.kill(killed.pid, signal.SIGKILL)
        await killed.wait()
        await eventually(lambda: shares(present) == [8, 8], within=5)
        assert all_have_one_owner(present)


@pytest.mark.timeout(60)
async def test_a_member_that_dies_before_anybody_watches_it_is_missed_all_the_same(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbour to be has made room for it, and not looked again yet; the other one counts with it."""
    async with members(database, 1) as (first,):
        await eventually(lambda: shares([first]) == [PARTITIONS])
        async with members(database, 1) as (neighbour,):
            present = [first, neighbour]
            await eventually(lambda: shares(present) == [8, 8])
            looks_again = asyncio.Event()
            give_up = neighbour.partitions._give_up

            async def give_up_and_pause(connection: Connection, surplus: Sequence[int]) -> None:
                await give_up(connection, surplus)
                await looks_again.wait()

            monkeypatch.setattr(neighbour.partitions, "_give_up", give_up_and_pause)
            killed = await start_member(database)
            await eventually(lambda: shares(present) == [5, 6] or shares(present) == [5, 5], within=20)
            await asyncio.sleep(0.5)
            os.kill(killed.pid, signal.SIGKILL)
            await killed.wait()
            await asyncio.sleep(0.5)
            looks_again.set()
            await eventually(lambda: shares(present) == [8, 8], within=5)
            assert all_have_one_owner(present)


PROGRAM = """
import asyncio, sys
from pydantic import SecretStr
from tablebell.lifecycle import Stop
from tablebell.partitions import Partitions
from tablebell.wakeups import Wakeup

async def adopt(connection, partitions): pass

asyncio.run(Partitions(SecretStr(sys.argv[1]), "killed", int(sys.argv[2]), adopt, Wakeup()).run(Stop()))
"""


async def start_member(database: Database) -> asyncio.subprocess.Process:
    url = database.url_of("event_relay").get_secret_value()
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, str(NAMESPACE), stdout=asyncio.subprocess.DEVNULL
    )


async def test_two_namespaces_do_not_disturb_each_other(database: Database) -> None:
    async with members(database, 1) as (alone,):
        elsewhere = Member(database, NAMESPACE + 1)
        await eventually(lambda: shares([alone, elsewhere]) == [PARTITIONS, PARTITIONS])
        await elsewhere.leave()
