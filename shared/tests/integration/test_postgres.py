"""What a pool's connection brings back from its use."""

from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database


async def test_a_connection_comes_back_without_a_round_trip(database: Database, pool: Pool) -> None:
    async with open_pool(database.url, "test", size=1) as used:
        pid = await used.fetchval("SELECT pg_backend_pid()")
        await used.fetchval("SELECT 'the last of mine'")
        last = await pool.fetchval("SELECT query FROM pg_stat_activity WHERE pid = $1", pid)
    assert last == "SELECT 'the last of mine'"


async def test_a_transaction_that_was_left_open_is_rolled_back(database: Database) -> None:
    async with open_pool(database.url, "test", size=1) as pool:
        async with pool.acquire() as connection:
            await connection.execute("BEGIN")
            await connection.execute("CREATE TABLE left_behind ()")
        assert await pool.fetchval("SELECT to_regclass('left_behind')") is None
