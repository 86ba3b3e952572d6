"""The instance's RabbitMQ: a node below its directory that shares nothing with other nodes on the machine."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tablebell.broker_users import OPERATOR, definitions, password_variable, user, user_name
from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.ports import PortRegistry
from tablebell_local.probe import NoResponse, get
from tablebell_local.process import ManagedProcess
from tablebell_local.processes import inherited_environment
from tablebell_local.programs import Programs

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


class RabbitMq(ManagedProcess):
    def __init__(self, instance: Instance, ports: PortRegistry, programs: Programs, secrets: Mapping[str, str]) -> None:
        preferred = {"amqp": 26672, "management": 26673, "distribution": 26674, "prometheus": 26676}
        super().__init__("rabbitmq", instance, ports, preferred)
        self._programs = programs
        self._secrets = secrets

    def url_of(self, service: str = OPERATOR) -> str:
        """With the user of a service, who has only the permissions of that service."""
        return f"amqp://{user_name(service)}:{self._password(service)}@{self.address}/%2F"

    @property
    def administrators_url(self) -> str:
        """For tests and benches, which create vhosts. The developer's instance has no administrator."""
        return f"amqp://{ADMINISTRATOR}:{self._password(OPERATOR)}@{self.address}/%2F"

    @property
    def management_url(self) -> str:
        return f"http://{ADMINISTRATOR}:{self._password(OPERATOR)}@127.0.0.1:{self.ports['management']}"

    def command(self) -> list[str]:
        return [str(self._programs.rabbitmq_server)]

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
        configuration = CONFIGURATION.format(
            definitions=self._path("definitions.json"), **{name: self.ports[name] for name in self.preferred_ports}
        )
        self._path("rabbitmq.conf").write_text(configuration)
        self._path("enabled_plugins").write_text("[rabbitmq_management,rabbitmq_prometheus].\n")
        self._path("rabbitmq-env.conf").touch()
        self._path("definitions.json").touch(mode=0o600)
        self._path("definitions.json").write_text(json.dumps(self._definitions()))
        return []

    async def problem(self) -> str | None:
        """Healthy: the operator can log in, and the AMQP port, which opens last, is open."""
        login = (user_name(OPERATOR), self._secrets[password_variable(OPERATOR)])
        path = f"/api/health/checks/port-listener/{self.ports['amqp']}"
        try:
            response = await get(self.ports["management"], path, login)
        except NoResponse as error:
            return str(error)
        return None if response.status == 200 else f"the management API answers {response.status}"

    async def control(self, *arguments: str) -> str:
        """Runs `rabbitmqctl` against this node and returns its output."""
        process = await asyncio.create_subprocess_exec(
            self._programs.rabbitmqctl,
            *arguments,
            env=inherited_environment() | self.settings(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise CommandError(f"`rabbitmqctl {' '.join(arguments)}` failed: {output.decode().strip()}")
        return output.decode()

    def _password(self, service: str) -> str:
        return quote(self._secrets[password_variable(service)], safe="")

    def _path(self, name: str) -> Path:
        return self.instance.path("rabbitmq", name)

    def _definitions(self) -> dict[str, Any]:
        """Read at every start, so the users exist even after an interrupted first start. With definitions RabbitMQ does
        not create its default user `guest`."""
        content = definitions(self._secrets)
        if self.instance.name != "dev":
            content["users"].append(user(ADMINISTRATOR, self._secrets[password_variable(OPERATOR)], "administrator"))
            everything = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
            content["permissions"].append({"user": ADMINISTRATOR, **everything})
        return content
