"""After a switchover everything works on the new primary within 5 s of its readiness, and nothing stays on a standby.

The servers are a real primary and a real standby that streams from it.
"""

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pytest
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.outage import OUTAGES
from tablebell.partitions import PARTITIONS, Partitions
from tablebell.postgres import Connection, Pool, check, connect, open_pool
from tablebell.primary import ReadOnlyServer
from tablebell.testing import Database, VirtualAddress, eventually
from tablebell.testing.database import make_database
from tablebell.wakeups import Wakeup, WakeupListener
from tablebell_local.postgres import Postgres
from tablebell_local.replication import Replication
from tablebell_local.testing import open_replication

WITHIN = 5.0
WRITE = "UPDATE restaurant SET name = name WHERE id = 10"
ENOUGH_FOR_SEVERAL = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def replication(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replication]:
    with open_replication(tmp_path_factory.mktemp("replication")) as replication:
        yield replication


@pytest.fixture(scope="module")
def both(replication: Replication) -> Database:
    """A database whose URL names both servers."""
    return make_database(replication.url("postgres"))


def port_of(server: Postgres) -> int:
    return server.ports[server.name]


def ports_of(replication: Replication) -> list[int]:
    """The standby comes first in the URL, so that it is tried and refused."""
    return [port_of(replication.standby), port_of(replication.primary)]


async def switch_over(replication: Replication) -> None:
    await replication.switch_over()
    await replication.follow()


async def can_write(pool: Pool) -> bool:
    try:
        await pool.execute(WRITE)
    except OUTAGES:
        return False
    return True


async def is_well(pool: Pool) -> bool:
    try:
        await check(pool)
    except OUTAGES:
        return False
    return True


@asynccontextmanager
async def writing(pool: Pool) -> AsyncIterator[None]:
    """Writes continuously, so that connections break and are opened at every moment of a switchover."""

    async def write() -> None:
        while True:
            await can_write(pool)
            await asyncio.sleep(0.02)

    tasks = [asyncio.create_task(write()) for _ in range(3)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@ENOUGH_FOR_SEVERAL
async def test_a_pool_writes_to_the_new_primary(replication: Replication, both: Database) -> None:
    async with open_pool(both.url, "test", size=5) as pool:
        for _ in range(2):
            assert await can_write(pool)
            async with writing(pool):
                await replication.switch_over()
                await eventually(lambda: can_write(pool), within=WITHIN)
            await replication.follow()
            assert await can_write(pool)


async def test_the_writable_server_is_used_by_default(replication: Replication, both: Database) -> None:
    async with open_pool(both.at(*ports_of(replication)).url, "test", size=5) as pool:
        assert await can_write(pool)


async def test_no_connection_is_ever_made_to_a_standby(replication: Replication, both: Database) -> None:
    standby = both.at(port_of(replication.standby))
    async with open_pool(standby.url, "test", size=5) as pool:
        with pytest.raises(ReadOnlyServer, match="read-only: a standby"):
            await pool.fetchval("SELECT 1")
        with pytest.raises(ReadOnlyServer, match="read-only: a standby"):
            await check(pool)
    with pytest.raises(ReadOnlyServer, match="read-only: a standby"):
        await connect(standby.url, "test")


@ENOUGH_FOR_SEVERAL
async def test_a_pool_follows_an_address_that_led_to_a_standby_to_the_new_primary(
    replication: Replication, both: Database
) -> None:
    """The connections of the pool are opened while the address still leads to the demoted server."""
    old = replication.primary
    async with VirtualAddress(port_of(old)).open() as address:
        database = both.at(address.port)
        async with open_pool(database.url, "test", size=5) as pool, writing(pool):
            assert await can_write(pool)
            await switch_over(replication)  # the address leads to the old primary, which is a standby now
            await asyncio.sleep(1)
            assert not await is_well(pool), "a service that cannot write is not ready"
            address.target = port_of(replication.primary)
            await eventually(lambda: can_write(pool), within=WITHIN)
            await eventually(lambda: is_well(pool), within=WITHIN)


@ENOUGH_FOR_SEVERAL
async def test_a_listener_receives_announcements_of_the_new_primary(replication: Replication, both: Database) -> None:
    stop = Stop()
    async with VirtualAddress(port_of(replication.primary)).open() as address, asyncio.TaskGroup() as tasks:
        listener = WakeupListener(both.at(address.port).url, "test")
        wakeup = listener.subscribe("work")
        tasks.create_task(listener.run(stop))
        await eventually(lambda: listener.connected)
        await switch_over(replication)
        await asyncio.sleep(1)
        assert not listener.connected, "it listens on a standby"
        address.target = port_of(replication.primary)
        await eventually(lambda: listener.connected, within=WITHIN)
        await wakeup.wait(1, stop)  # every new connection wakes once
        async with replication_connection(both) as connection:
            await connection.execute("SELECT pg_notify('work', '')")
        assert await wakeup.wait(WITHIN, stop)
        stop.request()


@ENOUGH_FOR_SEVERAL
async def test_partitions_are_owned_on_the_new_primary_and_nowhere_else(
    replication: Replication, both: Database
) -> None:
    stop = Stop()
    async with VirtualAddress(port_of(replication.primary)).open() as address, asyncio.TaskGroup() as tasks:
        partitions = Partitions(both.at(address.port).url, "test", 77, nothing_to_free, Wakeup())
        tasks.create_task(partitions.run(stop))
        await eventually(lambda: len(partitions.owned) == PARTITIONS)
        await switch_over(replication)
        await asyncio.sleep(1)
        assert not partitions.owned, "it holds locks on a standby"
        address.target = port_of(replication.primary)
        await eventually(lambda: len(partitions.owned) == PARTITIONS, within=WITHIN)
        async with replication_connection(both) as connection:
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 77 AND objid < 1000"
            assert await connection.fetchval(held) == PARTITIONS
        stop.request()


async def nothing_to_free(_: Connection, __: Sequence[int]) -> None:
    pass


@ENOUGH_FOR_SEVERAL
async def test_migrations_find_the_primary_among_the_servers(replication: Replication, both: Database) -> None:
    for _ in range(2):
        for url in (both.url, both.at(*ports_of(replication)).url):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tablebell_migrations", "demo-data"),
                env={**os.environ, "DATABASE_URL": url.get_secret_value()},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _errors = await process.communicate()
            assert process.returncode == 0, output.decode()
        await switch_over(replication)


@ENOUGH_FOR_SEVERAL
async def test_a_server_that_was_read_only_is_used_again(replication: Replication, both: Database) -> None:
    async with open_pool(both.at(port_of(replication.primary)).url, "test", size=5) as pool:
        assert await can_write(pool)
        before = await pool.fetchval("SELECT pg_backend_pid()")
        async with read_only(replication.primary):
            await eventually(lambda: refuses(pool))
            with pytest.raises(ReadOnlyServer, match="read-only"):
                await check(pool)
        await eventually(lambda: can_write(pool), within=WITHIN)
        await check(pool)
        assert await pool.fetchval("SELECT pg_backend_pid()") != before, "the connection was kept"


@pytest.mark.parametrize("how", ["pool", "connection", "transaction", "caught"])
async def test_a_connection_that_refused_a_write_is_replaced(both: Database, how: str) -> None:
    """Only the session is set to read-only: the server accepts new connections, and they can write."""
    async with open_pool(both.url, "test", size=1) as pool:
        before = await pool.fetchval("SELECT pg_backend_pid()")
        await pool.execute("SET default_transaction_read_only = on")
        with contextlib.suppress(asyncpg.ReadOnlySQLTransactionError):
            if how == "pool":
                await pool.execute(WRITE)
            if how == "connection":
                async with pool.acquire() as connection:
                    await connection.fetchval(f"{WRITE} RETURNING id")
            if how == "transaction":
                async with pool.acquire() as connection, connection.transaction():
                    await connection.fetch(f"{WRITE} RETURNING id")
            if how == "caught":
                async with pool.acquire() as connection:
                    with contextlib.suppress(asyncpg.ReadOnlySQLTransactionError):
                        await connection.fetchrow(f"{WRITE} RETURNING id")
        assert await pool.fetchval("SELECT pg_backend_pid()") != before
        await pool.execute(WRITE)


async def test_a_hanging_server_does_not_delay_the_next(replication: Replication, both: Database) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # it accepts connections and never answers
        database = both.at(silent.getsockname()[1], port_of(replication.primary))
        async with open_pool(database.url, "test", size=1) as pool:
            began = time.monotonic()
            await check(pool)  # health allows 2 s
            assert time.monotonic() - began < 2


async def test_the_error_names_every_server_if_none_is_usable(replication: Replication, both: Database) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = closed.getsockname()[1]
        standby = port_of(replication.standby)
        async with open_pool(both.at(nobody, standby).url, "test", size=1) as pool:
            with pytest.raises(ConnectionError, match="accepts writes") as failure:
                await pool.fetchval("SELECT 1")
    assert f"127.0.0.1:{nobody}" in str(failure.value)
    assert f"127.0.0.1:{standby} is read-only" in str(failure.value)


async def test_a_wrong_password_is_reported_as_such(replication: Replication, both: Database) -> None:
    url = SecretStr(both.url.get_secret_value().replace("tablebell:", "tablebell:x", 1))
    async with open_pool(url, "test", size=1) as pool:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await pool.fetchval("SELECT 1")


@asynccontextmanager
async def replication_connection(database: Database) -> AsyncIterator[Connection]:
    connection = await connect(database.url, "test")
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def read_only(server: Postgres) -> AsyncIterator[None]:
    async def set_to(value: str) -> None:
        async with server.administer() as connection:
            await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            await connection.execute("SELECT pg_reload_conf()")

    await set_to("on")
    try:
        yield
    finally:
        await set_to("off")


async def refuses(pool: Pool) -> bool:
    return not await can_write(pool)
