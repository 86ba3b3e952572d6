"""A PostgreSQL server of the instance: a cluster below its directory that listens on 127.0.0.1 only."""

import asyncio
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import asyncpg

from tablebell_local.account import Account, account_for
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.ports import PortRegistry
from tablebell_local.process import ManagedProcess
from tablebell_local.processes import command_lines, run_to_log
from tablebell_local.programs import Programs

OWNER = DATABASE = "tablebell"
CREATE_LIMIT = 120.0


class Postgres(ManagedProcess):
    """Found by its command line and process titles, which contain the cluster's name. The environment is no help:
    PostgreSQL overwrites it with the titles, and under root the processes belong to another account."""

    # A fast shutdown, then an immediate one. A smart shutdown would wait for the clients.
    stop_steps = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))

    def __init__(
        self, instance: Instance, ports: PortRegistry, programs: Programs, secrets: Mapping[str, str], number: int = 1
    ) -> None:
        suffix = "" if number == 1 else f"-{number}"
        name = f"postgres{suffix}"
        super().__init__(name, instance, ports, {name: 25432 + 100 * (number - 1)})
        self._programs = programs
        self._secrets = secrets
        self._data = instance.path(f"pgdata{suffix}")
        self._label = f"{instance.label}{suffix}"

    def url(self, database: str = DATABASE) -> str:
        """With the owner's role, which has all rights."""
        return self._url(OWNER, "POSTGRES_PASSWORD", database)

    def url_of(self, service: str) -> str:
        """With the role of a service, which has only the rights of that service."""
        role = service.replace("-", "_")
        return self._url(f"tablebell_{role}", f"{role.upper()}_DB_PASSWORD", DATABASE)

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
        return [str(self._programs.postgres), "-D", str(self._data), *options]

    def settings(self) -> dict[str, str]:
        return {}

    async def prepare(self) -> list[str]:
        account = account_for(self._data)
        if not self._data.exists():
            await asyncio.to_thread(self._create_cluster, account)
        self._check_version()
        # No process of this cluster runs now. A lock file is that of a killed server, and another process may have
        # its pid by now.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        return list(account.prefix)

    async def problem(self) -> str | None:
        try:
            async with asyncio.timeout(5):
                connection = await asyncpg.connect(self.url("postgres"), ssl=False)
                await connection.close()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            return f"no connection at {self.address}: {error}"
        return None

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
        await asyncio.to_thread(self._clone, primary)

    def demote(self) -> None:
        """While it is stopped: it does not start as a second primary."""
        signal_file = self._data / "standby.signal"
        signal_file.touch()
        account_for(self._data).own(signal_file)

    def _url(self, user: str, secret: str, database: str) -> str:
        return f"postgresql://{user}:{quote(self._secrets[secret], safe='')}@{self.address}/{database}"

    def _is_postmaster(self, arguments: list[str]) -> bool:
        return Path(arguments[0]).name == "postgres" and arguments[1:3] == ["-D", str(self._data)]

    def _create_cluster(self, account: Account) -> None:
        password = self._data.with_name("pgdata.password")
        password.touch(mode=0o600)
        account.own(password)
        password.write_text(self._secrets["POSTGRES_PASSWORD"])
        how = ["-E", "UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password}"]
        how += ["--no-sync"] if self.instance.is_throwaway else []
        try:
            self._populate(account, "initdb", ["-U", OWNER, *how], {})
        finally:
            password.unlink()

    def _clone(self, primary: "Postgres") -> None:
        account = account_for(self._data)
        where = ["-h", "127.0.0.1", "-p", str(primary.ports[primary.name]), "-U", OWNER, "--no-password"]
        how = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        self._populate(account, "pg_basebackup", [*where, *how], {"PGPASSWORD": self._secrets["POSTGRES_PASSWORD"]})

    def _populate(self, account: Account, program: str, arguments: list[str], environment: Mapping[str, str]) -> None:
        """Creates the data in a temporary directory and renames it, so a crash leaves no incomplete cluster."""
        temporary = self._data.with_name(f"{self._data.name}.new")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700)
        account.own(temporary)
        command = [*account.prefix, str(self._programs.postgres.with_name(program)), "-D", str(temporary), *arguments]
        run_to_log(program, command, log=self.log, begin=self.log_begin, environment=environment, limit=CREATE_LIMIT)
        shutil.rmtree(self._data, ignore_errors=True)
        temporary.rename(self._data)

    def _check_version(self) -> None:
        needed = (self._data / "PG_VERSION").read_text().strip()
        program = subprocess.run(
            [self._programs.postgres, "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if f" {needed}." not in program:
            raise CommandError(
                f"the data in {self._data} needs PostgreSQL {needed}, but “{program}” is installed: "
                f"install postgresql-{needed}, or remove all data with `make clean`"
            )
