"""A PostgreSQL server of the instance: a cluster below its directory that listens on 127.0.0.1 only."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import asyncpg

from tablebell_local.account import command_prefix, give
from tablebell_local.instance import Instance
from tablebell_local.process import ManagedProcess
from tablebell_local.processes import command_lines, run_to_log
from tablebell_local.programs import program

OWNER = DATABASE = "tablebell"
CREATE_LIMIT = 120.0


class Postgres(ManagedProcess):
    """Found by its command line and process titles, which contain the cluster's name. The environment is no help:
    PostgreSQL overwrites it with the titles, and under root the processes belong to another account."""

    # A fast shutdown, then an immediate one. A smart shutdown would wait for the clients.
    stop_steps = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))

    def __init__(self, instance: Instance, number: int = 1) -> None:
        suffix = "" if number == 1 else f"-{number}"
        name = f"postgres{suffix}"
        super().__init__(name, instance, {name: 25432 + 100 * (number - 1)})
        self._data = instance.path(f"pgdata{suffix}")
        self._label = f"{instance.label}{suffix}"

    def url(self, database: str = DATABASE, service: str | None = None) -> str:
        """With the role of a service, which has only the rights of that service; otherwise with the owner's role."""
        role = (service or "").replace("-", "_")
        user, secret = (f"{OWNER}_{role}", f"{role.upper()}_DB_PASSWORD") if role else (OWNER, "POSTGRES_PASSWORD")
        return f"postgresql://{user}:{quote(self.instance.secrets[secret], safe='')}@{self.address}/{database}"

    @property
    def exists(self) -> bool:
        return self._data.exists()

    @property
    def is_standby(self) -> bool:
        """PostgreSQL removes the file on promotion."""
        return (self._data / "standby.signal").exists()

    def pids(self) -> list[int]:
        title = f"postgres: {self._label}: "
        return [
            pid
            for pid, arguments in command_lines()
            if self._is_postmaster(arguments) or arguments[0].startswith(title)
        ]

    def is_current(self) -> bool:
        return any(arguments == self.command() for _, arguments in command_lines())

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.ports[self.name]),
            "unix_socket_directories": "",  # a socket path is limited to 107 bytes, and a clone's path may be longer
            "cluster_name": self._label,
            "max_connections": "200",
            "shared_buffers": "256MB",
            "log_line_prefix": "%m [%p] %q%u@%d ",
        }
        if self.instance.has_standby:
            # A standby reconnects quickly and still finds the WAL that it missed.
            settings |= {"wal_retrieve_retry_interval": "500ms", "wal_keep_size": "256MB"}
        if self.instance.is_throwaway:
            # Commits still reach the kernel's cache, so they survive a kill of the server.
            settings |= {"fsync": "off", "full_page_writes": "off"}
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        return [str(program("postgres")), "-D", str(self._data), *options]

    def settings(self) -> dict[str, str]:
        return {}

    async def prepare(self) -> list[str]:
        if not self._data.exists():
            await asyncio.to_thread(self._create_cluster)
        # No process of this cluster runs now. A lock file is that of a killed server, and another process may have
        # its pid by now.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        return command_prefix(self._data)

    async def problem(self) -> str | None:
        try:
            async with asyncio.timeout(5), self.administer():
                return None
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            return f"no connection at {self.address}: {error}"

    async def ensure_database(self) -> None:
        async with self.administer() as connection:
            if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", DATABASE):
                await connection.execute(f"CREATE DATABASE {DATABASE}")

    @asynccontextmanager
    async def administer(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """A connection with the owner's role to this server, primary or standby."""
        connection = await asyncpg.connect(self.url("postgres"), timeout=5, ssl=False)
        try:
            yield connection
        finally:
            await connection.close(timeout=5)

    async def clone(self, primary: "Postgres") -> None:
        """Makes this server a standby of the primary. Its own data is removed."""
        where = ["-h", "127.0.0.1", "-p", str(primary.ports[primary.name]), "-U", OWNER, "--no-password"]
        how = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        password = {"PGPASSWORD": self.instance.secrets["POSTGRES_PASSWORD"]}
        await asyncio.to_thread(self._populate, "pg_basebackup", [*where, *how], password)

    def demote(self) -> None:
        """While it is stopped: it does not start as a second primary."""
        signal_file = self._data / "standby.signal"
        signal_file.touch()
        give(signal_file, self._data)

    def _is_postmaster(self, arguments: list[str]) -> bool:
        return Path(arguments[0]).name == "postgres" and arguments[1:3] == ["-D", str(self._data)]

    def _create_cluster(self) -> None:
        password = self._data.with_name("pgdata.password")
        password.touch(mode=0o600)
        give(password, self._data)
        password.write_text(self.instance.secrets["POSTGRES_PASSWORD"])
        how = ["-E", "UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password}"]
        how += ["--no-sync"] if self.instance.is_throwaway else []
        try:
            self._populate("initdb", ["-U", OWNER, *how], {})
        finally:
            password.unlink()

    def _populate(self, name: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        """Creates the data in a temporary directory and renames it, so a crash leaves no incomplete cluster."""
        temporary = self._data.with_name(f"{self._data.name}.new")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700)
        give(temporary, self._data)
        executable = program("postgres").with_name(name)
        command = [*command_prefix(self._data), str(executable), "-D", str(temporary), *arguments]
        run_to_log(command, self.log, self.log_begin, environment, CREATE_LIMIT)
        shutil.rmtree(self._data, ignore_errors=True)
        temporary.rename(self._data)
