"""The pool: every connection names its service, speaks JSON as Python values, and never waits for ever.

All connections are to a server that accepts writes (`primary.py`). When a server refuses to write after all, because it
was set to read-only or stands behind a proxy, every connection of the pool is replaced before its next use.
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
    # What runs a statement: a connection, within its transaction, or the pool, in a transaction of the statement's own.
    Executor: TypeAlias = Connection | Pool
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    Pool, Connection, Executor, _Connection = asyncpg.Pool, asyncpg.Connection, asyncpg.Connection, asyncpg.Connection

log = structlog.get_logger(__name__)

COMMAND_TIMEOUT = 30.0


def _noting_refusal(method: Any) -> Any:
    async def run(self: "PoolConnection", *arguments: Any, **options: Any) -> Any:
        try:
            return await method(self, *arguments, **options)
        except asyncpg.ReadOnlySQLTransactionError:
            self.refused_to_write = True
            raise

    return run


class PoolConnection(_Connection):
    """Remembers that the server refused to write, whichever statement it was and whoever caught the error."""

    __slots__ = ("refused_to_write",)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.refused_to_write = False

    execute = _noting_refusal(asyncpg.Connection.execute)
    executemany = _noting_refusal(asyncpg.Connection.executemany)
    fetch = _noting_refusal(asyncpg.Connection.fetch)
    fetchrow = _noting_refusal(asyncpg.Connection.fetchrow)
    fetchval = _noting_refusal(asyncpg.Connection.fetchval)


@asynccontextmanager
async def open_pool(
    url: SecretStr, service: str, size: int, planner: Mapping[str, str] | None = None
) -> AsyncIterator[Pool]:
    """Connects when first needed: a service starts, and says it is not ready, while the database is away.

    `planner` are settings of PostgreSQL for every query of this pool.
    """
    servers = DatabaseUrl.parse(url.get_secret_value())

    async def connect_again(*_: Any, **options: Any) -> Any:
        return await connect_primary(servers, **options)

    async def keep_or_replace(connection: Any) -> None:
        """What belongs to a session has a connection of its own (`connect`), so that a pool's connection comes back as
        it went: a reset would cost every use a round trip. asyncpg still rolls back what was left open."""
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
    """A connection of one's own, outside the pool, for what belongs to a session: LISTEN and advisory locks.

    Nothing may be sent on it for hours: TCP itself asks whether the server is still there.
    """
    servers = DatabaseUrl.parse(url.get_secret_value())
    connection: Connection = await connect_primary(
        servers, command_timeout=COMMAND_TIMEOUT, server_settings=server_settings(service)
    )
    await prepare_connection(connection)
    return connection


def _keep_alive(connection: Any) -> None:
    """A vanished server is noticed within 25 s on an idle connection, within 10 s on one that sends a statement."""
    # asyncpg has no option for it and no public way to its socket.
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
        "jit": "off",  # our queries are short: compiling them costs more than it saves
        "idle_in_transaction_session_timeout": "30000",
        # A machine that vanished without a word gives up its locks within half a minute.
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
    """Raises when the database does not answer or refuses to write: every service that has a pool writes."""
    if await pool.fetchval("SHOW transaction_read_only", timeout=2.0) == "on":
        await pool.expire_connections()
        raise ReadOnlyServer("the server is read-only: it refuses to write")
