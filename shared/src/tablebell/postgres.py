"""The pool: every connection names its service, speaks JSON as Python values, and never waits for ever."""

import socket
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
        reset=_leave_as_it_is,
        command_timeout=COMMAND_TIMEOUT,
        timeout=10.0,
        server_settings=server_settings(service),
    )
    async with pool:
        yield pool


async def connect(url: SecretStr, service: str) -> Connection:
    """A connection of one's own, outside the pool, for what belongs to a session: LISTEN and advisory locks.

    Nothing may be said on it for hours: TCP itself asks whether the server is still there.
    """
    connection: Connection = await asyncpg.connect(
        url.get_secret_value(),
        command_timeout=COMMAND_TIMEOUT,
        timeout=10.0,
        server_settings=server_settings(service),
    )
    await prepare_connection(connection)
    _keep_alive(connection)
    return connection


def _keep_alive(connection: Any) -> None:
    # asyncpg has no option for it and no public way to its socket.
    peer: socket.socket = connection._transport.get_extra_info("socket")  # noqa: SLF001
    if peer.family in (socket.AF_INET, socket.AF_INET6):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


async def _leave_as_it_is(_connection: Any) -> None:
    """Instead of asyncpg's reset, a round trip after every use: what belongs to a session has no business in a pool."""


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


def to_json(value: object) -> str:
    return orjson.dumps(value).decode()


async def check(pool: Pool) -> None:
    """Raises when the database cannot be asked."""
    await pool.fetchval("SELECT 1", timeout=2.0)
