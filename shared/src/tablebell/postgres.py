"""The pool: every connection names its service, speaks JSON as Python values, and never waits for ever."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg
import orjson
from pydantic import SecretStr

if TYPE_CHECKING:
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    # What runs a statement: a connection, within its transaction, or the pool, in a transaction of the statement's own.
    Executor: TypeAlias = Connection | Pool
else:
    Pool, Connection, Executor = asyncpg.Pool, asyncpg.Connection, asyncpg.Connection

COMMAND_TIMEOUT = 30.0


@asynccontextmanager
async def open_pool(url: SecretStr, service: str, size: int) -> AsyncIterator[Pool]:
    """Connects when first needed: a service starts, and says it is not ready, while the database is away."""
    pool = asyncpg.create_pool(
        url.get_secret_value(),
        min_size=0,
        max_size=size,
        max_inactive_connection_lifetime=300.0,
        init=prepare_connection,
        reset=keep_session,
        command_timeout=COMMAND_TIMEOUT,
        timeout=10.0,
        server_settings=server_settings(service),
    )
    async with pool:
        yield pool


async def connect(url: SecretStr, service: str) -> Connection:
    """A connection of one's own, outside the pool, for what belongs to a session: LISTEN and advisory locks."""
    connection: Connection = await asyncpg.connect(
        url.get_secret_value(),
        command_timeout=COMMAND_TIMEOUT,
        timeout=10.0,
        server_settings=server_settings(service),
    )
    await prepare_connection(connection)
    return connection


def server_settings(service: str) -> dict[str, str]:
    return {
        "application_name": service,
        "jit": "off",  # our queries are short: compiling them costs more than it saves
        "idle_in_transaction_session_timeout": "30000",
        # A machine that vanished without a word gives up its locks within half a minute.
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }


async def prepare_connection(connection: Any) -> None:
    await connection.set_type_codec("jsonb", encoder=to_json, decoder=orjson.loads, schema="pg_catalog")


async def keep_session(_: Any) -> None:
    """What belongs to a session has a connection of its own (`connect`), so that a pool's connection comes back as it
    went: resetting it all the same would cost every use a round trip. asyncpg still rolls back what was left open."""


def to_json(value: object) -> str:
    return orjson.dumps(value).decode()


async def check(pool: Pool) -> None:
    """Raises when the database cannot be asked."""
    await pool.fetchval("SELECT 1", timeout=2.0)
