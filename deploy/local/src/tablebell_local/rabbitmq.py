"""The instance's RabbitMQ: a node below its directory that shares nothing with other nodes on the machine."""

import asyncio
import base64
import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tablebell.broker_users import OPERATOR, definitions, password_variable, user, user_name
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.process import ManagedProcess, http_problem
from tablebell_local.processes import command_lines, inherited_environment
from tablebell_local.programs import program

ADMINISTRATOR = "tablebell_administrator"

CONFIGURATION = """\
listeners.tcp.local = 127.0.0.1:{amqp}
management.tcp.ip = 127.0.0.1
management.tcp.port = {management}
management.rates_mode = none
prometheus.tcp.ip = 127.0.0.1
prometheus.tcp.port = {prometheus}
load_definitions = {definitions}
log.file = false
log.console = true
log.console.level = info
log.console.use_colors = off
raft.wal_max_size_bytes = 67108864
"""

# Overrides every path that defaults to the machine's own RabbitMQ. HOME contains the Erlang cookie.
FILES = {
    "HOME": "",
    "RABBITMQ_MNESIA_BASE": "mnesia",
    "RABBITMQ_LOG_BASE": "log",
    "RABBITMQ_ENABLED_PLUGINS_FILE": "enabled_plugins",
    "RABBITMQ_CONFIG_FILE": "rabbitmq.conf",
    "RABBITMQ_CONFIG_FILES": "conf.d",
    "RABBITMQ_ADVANCED_CONFIG_FILE": "advanced.config",
    "RABBITMQ_CONF_ENV_FILE": "rabbitmq-env.conf",
}

# Idle schedulers sleep instead of spinning, and two are enough here.
ERLANG_ARGUMENTS = "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}"


PORTS = {"amqp": 26672, "management": 26673, "distribution": 26674, "epmd": 26675, "prometheus": 26676}


class RabbitMq(ManagedProcess):
    """Starts its own epmd, Erlang's port mapper, which is part of this process: it inherits the marks."""

    def __init__(self, instance: Instance) -> None:
        super().__init__("rabbitmq", instance, PORTS)

    def url(self, service: str | None = None) -> str:
        """With the user of a service, who has only the permissions of that service; otherwise with the operators'."""
        user = service or OPERATOR
        return f"amqp://{user_name(user)}:{self._password(user)}@{self.address}/%2F"

    @property
    def administrators_url(self) -> str:
        """For tests and benches, which create vhosts. The developer's instance has no administrator."""
        return f"amqp://{ADMINISTRATOR}:{self._password(OPERATOR)}@{self.address}/%2F"

    @property
    def management_url(self) -> str:
        return f"http://{ADMINISTRATOR}:{self._password(OPERATOR)}@127.0.0.1:{self.ports['management']}"

    def command(self) -> list[str]:
        return [str(program("rabbitmq-server"))]

    def settings(self) -> dict[str, str]:
        return {name: str(self._path(file)) for name, file in FILES.items()} | {
            "RABBITMQ_NODENAME": f"{self.instance.label}@localhost",
            "RABBITMQ_DIST_PORT": str(self.ports["distribution"]),
            "ERL_EPMD_PORT": str(self.ports["epmd"]),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG_ARGUMENTS,
            # The start script then execs the server instead of waiting for it in a shell.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    async def prepare(self) -> list[str]:
        self._path("").mkdir(mode=0o700, exist_ok=True)
        ports = {name: self.ports[name] for name in PORTS}
        configuration = CONFIGURATION.format(definitions=self._path("definitions.json"), **ports)
        self._path("rabbitmq.conf").write_text(configuration)
        self._path("enabled_plugins").write_text("[rabbitmq_management,rabbitmq_prometheus].\n")
        self._path("rabbitmq-env.conf").touch()
        self._path("definitions.json").touch(mode=0o600)
        self._path("definitions.json").write_text(json.dumps(self._definitions()))
        return []

    async def problem(self) -> str | None:
        """Healthy: the operator can log in, and the AMQP port, which opens last, is open."""
        login = f"{user_name(OPERATOR)}:{self.instance.secrets[password_variable(OPERATOR)]}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        path = f"/api/health/checks/port-listener/{self.ports['amqp']}"
        return await http_problem(self.ports["management"], path, headers)

    def has_ended(self) -> bool:
        """A killed server leaves its epmd behind."""
        pids = self.pids()
        servers = [pid for pid, arguments in command_lines() if pid in pids and arguments[0].endswith("beam.smp")]
        return super().has_ended() or (self._child is None and not servers)

    async def control(self, *arguments: str) -> str:
        """Runs `rabbitmqctl` against this node and returns its output."""
        command, environment = [str(program("rabbitmqctl")), *arguments], inherited_environment() | self.settings()
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CommandError(f"`rabbitmqctl {' '.join(arguments)}` failed: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def _password(self, service: str) -> str:
        return quote(self.instance.secrets[password_variable(service)], safe="")

    def _path(self, name: str) -> Path:
        return self.instance.path("rabbitmq", name)

    def _definitions(self) -> dict[str, Any]:
        """Read at every start, so the users exist even after an interrupted first start. With definitions RabbitMQ does
        not create its default user `guest`."""
        content = definitions(self.instance.secrets)
        if not self.instance.is_developers:
            content["users"].append(
                user(ADMINISTRATOR, self.instance.secrets[password_variable(OPERATOR)], "administrator")
            )
            everything = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
            content["permissions"].append({"user": ADMINISTRATOR, **everything})
        return content
