"""Connects to the server that accepts writes, among all servers in DATABASE_URL.

A standby or a read-only server is refused during the handshake, without an extra round trip (PostgreSQL 14 and later).
The servers are tried in order. The next one is tried when one has failed, and also when it has not answered for a
moment, so that a hanging server does not delay the others.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from tablebell.database_url import DatabaseUrl, Server
from tablebell.outage import OUTAGES, describe

NEXT_SERVER_SECONDS = 0.3


class ReadOnlyServer(ConnectionError):
    """The server answers but accepts no writes."""


async def connect_primary(url: DatabaseUrl, **options: Any) -> Any:
    """Returns the first connection to a writable server. `options` are those of asyncpg.connect."""
    waiting = list(url.servers)
    attempts: set[asyncio.Task[Any]] = set()
    failures: list[BaseException] = []
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.create_task(_connect(url, waiting.pop(0), options), name="connect"))
            pause = NEXT_SERVER_SECONDS if waiting else None
            done, attempts = await asyncio.wait(attempts, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                if (failure := attempt.exception()) is None:
                    attempts |= done - {attempt}
                    return attempt.result()
                failures.append(failure)
    finally:
        for attempt in attempts:
            attempt.add_done_callback(_terminate)
            attempt.cancel()
    raise _summary(url.servers, failures)


async def _connect(url: DatabaseUrl, server: Server, options: dict[str, Any]) -> Any:
    where: dict[str, Any] = {"host": server.host, "port": server.port, "target_session_attrs": url.target_session_attrs}
    try:
        return await asyncpg.connect(url.dsn, timeout=url.connect_seconds, **where, **options)
    except asyncpg.TargetServerAttributeNotMatched:
        raise ReadOnlyServer(f"{server} is read-only: a standby, or set so by default_transaction_read_only") from None
    except TimeoutError:
        raise TimeoutError(f"{server} does not answer within {url.connect_seconds:g} s") from None


def _terminate(attempt: "asyncio.Task[Any]") -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()


def _summary(servers: Sequence[Server], failures: Sequence[BaseException]) -> BaseException:
    """An unexpected error, such as a wrong password, as it is; the outages of several servers as one error."""
    unexpected = [failure for failure in failures if not isinstance(failure, OUTAGES)]
    if unexpected or len(failures) == 1:
        return (unexpected or failures)[0]
    reasons = "; ".join(dict.fromkeys(describe(failure) for failure in failures))
    if all(isinstance(failure, ReadOnlyServer) for failure in failures):
        return ReadOnlyServer(reasons)
    return ConnectionError(f"none of {', '.join(map(str, servers))} accepts writes: {reasons}")
