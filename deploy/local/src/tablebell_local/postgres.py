"""The instance's own PostgreSQL: a cluster below its directory, reached over 127.0.0.1 alone."""

import asyncio
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import asyncpg

from tablebell_local.account import Account, account_for
from tablebell_local.failure import Failure
from tablebell_local.instance import Instance
from tablebell_local.part import Part
from tablebell_local.ports import PortBook
from tablebell_local.processes import command_lines, inherited_environment
from tablebell_local.programs import Programs

OWNER = DATABASE = "tablebell"


class Postgres(Part):
    """Found by its command line and its processes' titles, which carry the cluster's name: PostgreSQL writes
    those titles over its environment, and under root the processes belong to another account."""

    # A fast shutdown, then an immediate one: waiting for the last client to leave could take for ever.
    stop_steps = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))

    def __init__(self, instance: Instance, ports: PortBook, programs: Programs, secrets: Mapping[str, str]) -> None:
        super().__init__("postgres", instance, ports, {"postgres": 25432})
        self._programs = programs
        self._secrets = secrets
        self._data = instance.path("pgdata")

    def url(self, database: str = DATABASE) -> str:
        """The owner's, who may do everything."""
        return self._url(OWNER, "POSTGRES_PASSWORD", database)

    def url_of(self, service: str) -> str:
        """A service's own role, which may do what that service does."""
        role = service.replace("-", "_")
        return self._url(f"tablebell_{role}", f"{role.upper()}_DB_PASSWORD", DATABASE)

    def pids(self) -> list[int]:
        title = f"postgres: {self.instance.label}: "
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
            "port": str(self.ports["postgres"]),
            "unix_socket_directories": "",  # a socket's path may have 107 bytes, a clone's may have more
            "cluster_name": self.instance.label,
            "max_connections": "200",
            "shared_buffers": "256MB",
            "log_line_prefix": "%m [%p] %q%u@%d ",
        }
        if self.instance.is_throwaway:
            # A commit is still handed to the kernel before it is answered: it survives a kill of the server.
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
        # No process of this cluster is left when this runs, so a lock file can only be that of a killed
        # server, whose number another process may have by now.
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
        connection = await asyncpg.connect(self.url("postgres"), timeout=5, ssl=False)
        try:
            if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", DATABASE):
                await connection.execute(f"CREATE DATABASE {DATABASE}")
        finally:
            await connection.close(timeout=5)

    def _url(self, user: str, secret: str, database: str) -> str:
        return f"postgresql://{user}:{quote(self._secrets[secret], safe='')}@{self.address}/{database}"

    def _is_postmaster(self, arguments: list[str]) -> bool:
        return Path(arguments[0]).name == "postgres" and arguments[1:3] == ["-D", str(self._data)]

    def _create_cluster(self, account: Account) -> None:
        """Made beside its place and moved there when complete, so a crash leaves no half of a cluster."""
        unfinished = self._data.with_name("pgdata.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        account.own(unfinished)
        password = self._data.with_name("pgdata.password")
        password.touch(mode=0o600)
        account.own(password)
        password.write_text(self._secrets["POSTGRES_PASSWORD"])
        initdb = [str(self._programs.postgres.with_name("initdb")), "-D", str(unfinished), "-U", OWNER]
        how = ["-E", "UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={password}"]
        how += ["--no-sync"] if self.instance.is_throwaway else []
        try:
            with self.log.open("ab") as log:
                subprocess.run(
                    [*account.prefix, *initdb, *how],
                    env=inherited_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    check=True,
                    timeout=120,
                )
        except subprocess.SubprocessError as error:
            raise Failure(f"the database cluster could not be created: {error}", self.log, self.log_begin) from error
        finally:
            password.unlink()
        unfinished.rename(self._data)

    def _check_version(self) -> None:
        needed = (self._data / "PG_VERSION").read_text().strip()
        program = subprocess.run(
            [self._programs.postgres, "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if f" {needed}." not in program:
            raise Failure(
                f"the data in {self._data} is of PostgreSQL {needed}, but this is “{program}”: "
                f"install postgresql-{needed}, or start afresh with `make clean`"
            )
