"""The state of a pooled connection after its use, and prepared statements after a migration."""

import asyncio

from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database, eventually
from tablebell.wakeups import Wakeup


async def test_a_connection_returns_to_the_pool_without_a_round_trip(database: Database, pool: Pool) -> None:
    async with open_pool(database.url, "test", size=1) as used:
        pid = await used.fetchval("SELECT pg_backend_pid()")
        await used.fetchval("SELECT 'the last of mine'")
        last = await pool.fetchval("SELECT query FROM pg_stat_activity WHERE pid = $1", pid)
    assert last == "SELECT 'the last of mine'"


async def test_an_open_transaction_is_rolled_back(database: Database) -> None:
    async with open_pool(database.url, "test", size=1) as pool:
        async with pool.acquire() as connection:
            await connection.execute("BEGIN")
            await connection.execute("CREATE TABLE left_behind ()")
        assert await pool.fetchval("SELECT to_regclass('left_behind')") is None


async def test_a_worker_continues_after_a_migration_changed_the_result_of_its_statement(
    database: Database, pool: Pool, stop: Stop
) -> None:
    """Within a transaction a statement that was prepared before fails once. The service continues."""
    seen: list[int] = []
    wakeup = Wakeup()

    async def run_once() -> bool:
        async with used.acquire() as connection, connection.transaction():
            row = await connection.fetchrow("SELECT * FROM restaurant LIMIT 1")
        seen.append(len(row or ()))
        return False

    async with open_pool(database.url, "test", size=1) as used, asyncio.TaskGroup() as tasks:
        tasks.create_task(keep_running("test", run_once, wakeup, 60, stop))
        await eventually(lambda: seen)
        await pool.execute("ALTER TABLE restaurant ADD COLUMN added text")
        wakeup.now()
        await eventually(lambda: len(seen) == 2)
        stop.request()
    assert seen[1] == seen[0] + 1
