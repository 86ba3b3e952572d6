"""The connection pool: every connection has the service's name, maps jsonb to Python values, and has timeouts.

All connections are to a server that accepts writes (`primary.py`). If a server refuses a write, because it was set to
read-only or the address now leads to a standby, every connection of the pool is replaced before its next use.
"""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg
import orjson
import structlog
from pydantic import SecretStr

from tablebell.database_url import DatabaseUrl
from tablebell.primary import ReadOnlyServer, connect_primary

if TYPE_CHECKING:
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]
    # Runs a statement: a connection, within its transaction, or the pool, in a transaction of its own.
    Executor: TypeAlias = Connection | Pool
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    Pool, Connection, Executor, _Connection = asyncpg.Pool, asyncpg.Connection, asyncpg.Connection, asyncpg.Connection

log = structlog.get_logger(__name__)

COMMAND_TIMEOUT = 30.0


def _recording_refusal(method: Any) -> Any:
    async def run(self: "PoolConnection", *arguments: Any, **options: Any) -> Any:
        try:
            return await method(self, *arguments, **options)
        except asyncpg.ReadOnlySQLTransactionError:
            self.refused_to_write = True
            raise

    return run


class PoolConnection(_Connection):
    """Records that the server refused a write, even if the error was caught."""

    __slots__ = ("refused_to_write",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.refused_to_write = False

    execute = _recording_refusal(asyncpg.Connection.execute)
    executemany = _recording_refusal(asyncpg.Connection.executemany)
    fetch = _recording_refusal(asyncpg.Connection.fetch)
    fetchrow = _recording_refusal(asyncpg.Connection.fetchrow)
    fetchval = _recording_refusal(asyncpg.Connection.fetchval)


@asynccontextmanager
async def open_pool(
    url: SecretStr, service: str, size: int, planner: Mapping[str, str] | None = None
) -> AsyncIterator[Pool]:
    """Connects on first use: a service starts while the database is unavailable, and reports that it is not ready.

    `planner` holds planner settings of PostgreSQL for every query of this pool.
    """
    servers = DatabaseUrl.parse(url.get_secret_value())

    async def connect_again(*_: Any, **options: Any) -> Any:
        return await connect_primary(servers, **options)

    async def keep_or_replace(connection: Any) -> None:
        """Replaces asyncpg's reset, which costs a round trip per use. It is not needed: session state is kept on other
        connections (`connect`). asyncpg still rolls back an open transaction."""
        if connection.refused_to_write:
            log.warning("read_only_server", action="replacing all connections of the pool")
            await pool.expire_connections()

    pool = asyncpg.create_pool(
        connect=connect_again,
        connection_class=PoolConnection,
        min_size=0,
        max_size=size,
        max_inactive_connection_lifetime=300.0,
        init=prepare_connection,
        reset=keep_or_replace,
        command_timeout=COMMAND_TIMEOUT,
        server_settings={**server_settings(service), **(planner or {})},
    )
    async with pool:
        yield pool


async def connect(url: SecretStr, service: str) -> Connection:
    """Open a connection outside the pool, for session state: LISTEN and advisory locks.

    It may be idle for hours, so TCP keepalives detect a lost server.
    """
    servers = DatabaseUrl.parse(url.get_secret_value())
    connection: Connection = await connect_primary(
        servers, command_timeout=COMMAND_TIMEOUT, server_settings=server_settings(service)
    )
    await prepare_connection(connection)
    return connection


def _keep_alive(connection: Any) -> None:
    """Detect a lost server within 25 s on an idle connection, and within 10 s while a statement is sent."""
    # asyncpg has no option for keepalives and no public access to its socket.
    peer: socket.socket = connection._transport.get_extra_info("socket")  # noqa: SLF001
    if peer.family in (socket.AF_INET, socket.AF_INET6):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000)


def server_settings(service: str) -> dict[str, str]:
    return {
        "application_name": service,
        "jit": "off",  # the queries are short: compiling them costs more than it saves
        "idle_in_transaction_session_timeout": "30000",
        # The locks of a lost client are released within half a minute.
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }


async def prepare_connection(connection: Any) -> None:
    _keep_alive(connection)
    await connection.set_type_codec("jsonb", encoder=to_json, decoder=orjson.loads, schema="pg_catalog")


def to_json(value: object) -> str:
    return orjson.dumps(value).decode()


async def check(pool: Pool) -> None:
    """Raises if the database does not answer or is read-only: every service with a pool writes."""
    if await pool.fetchval("SHOW transaction_read_only", timeout=2.0) == "on":
        await pool.expire_connections()
        raise ReadOnlyServer("the server is read-only: it refuses to write")
