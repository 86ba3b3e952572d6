"""The instance's PostgreSQL servers: the primary and, optionally, a standby.

Replication is synchronous while the standby streams, so a switchover loses no commit.
"""

import asyncio
import time

from tablebell_local.errors import CommandError
from tablebell_local.postgres import DATABASE, Postgres
from tablebell_local.process import bring_up, wait_for_health

STREAMING_LIMIT = 30.0


class Replication:
    def __init__(self, first: Postgres, second: Postgres) -> None:
        self._both = (first, second)
        self._instance = first.instance

    @property
    def servers(self) -> tuple[Postgres, ...]:
        return self._both if self._instance.has_standby else self._both[:1]

    @property
    def primary(self) -> Postgres:
        first, second = self._both
        return second if first.is_standby else first

    @property
    def standby(self) -> Postgres:
        first, second = self._both
        return first if self.primary is second else second

    def url(self, database: str = DATABASE, service: str | None = None) -> str:
        """Leads to the server that is the primary."""
        url = self._both[0].url(database, service)
        if not self._instance.has_standby:
            return url
        first, second = (server.address for server in self._both)
        return url.replace(f"@{first}/", f"@{first},{second}/") + "?target_session_attrs=read-write"

    async def up(self) -> None:
        await bring_up(self.primary)
        await self.primary.ensure_database()
        if not self._instance.has_standby:
            return
        if not self.standby.exists:
            await self.standby.clone(self.primary)
        await bring_up(self.standby)
        await self._make_synchronous()

    async def switch_over(self) -> None:
        """Promotes the standby. The old primary is stopped afterwards; `follow` makes it the standby."""
        old, new = self.primary, self.standby
        await _set_synchronous(new, "")  # it has no standby at first
        await old.stop()  # the shutdown waits until the standby has all WAL
        old.demote()
        async with new.administer() as connection:
            if not await connection.fetchval("SELECT pg_promote(true, 60)"):
                raise CommandError(f"{new.name} was not promoted", new.log, new.log_begin)

    async def follow(self) -> None:
        """Makes the other server the standby of the primary, from a new base backup."""
        standby = self.standby
        await standby.stop()
        await standby.clone(self.primary)
        await standby.start()
        if (problem := await wait_for_health(standby, standby.start_limit)) is not None:
            raise CommandError(f"{standby.name} did not start: {problem}", standby.log, standby.log_begin)
        await self._make_synchronous()

    async def _make_synchronous(self) -> None:
        """Makes replication synchronous when the standby streams; before that, every commit would wait."""
        deadline = time.monotonic() + STREAMING_LIMIT
        async with self.primary.administer() as connection:
            while not await connection.fetchval("SELECT true FROM pg_stat_replication WHERE state = 'streaming'"):
                if time.monotonic() > deadline:
                    standby = self.standby
                    raise CommandError(f"{standby.name} does not follow the primary", standby.log, standby.log_begin)
                await asyncio.sleep(0.1)
        await _set_synchronous(self.primary, "*")


async def _set_synchronous(server: Postgres, standbys: str) -> None:
    async with server.administer() as connection:
        await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
        await connection.execute("SELECT pg_reload_conf()")
