"""The system as containers, run by docker compose: the plugin or docker-compose 1.29."""

import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tablebell.broker_users import OPERATOR, password_variable, user_name
from tablebell_local.credentials import create_signing_key, load, load_or_create
from tablebell_local.errors import CommandError
from tablebell_local.instance import PROJECT

HEALTH_LIMIT = 300.0
SIGNING_KEY = ".secrets/jwt-private-key.pem"
CONTAINER = (
    "{{.Name}} {{.State.Status}} {{.State.ExitCode}} {{if .State.Health}}{{.State.Health.Status}}{{else}}-{{end}}"
)


def engine_answers() -> bool:
    """The timeout is for a socket that accepts connections and never answers."""
    try:
        return subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=2).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


@dataclass(frozen=True)
class Container:
    name: str
    status: str
    exit_code: int
    health: str

    @property
    def is_healthy(self) -> bool:
        """A one-off container, such as the migrations, is healthy after it exited with 0."""
        if self.status == "exited":
            return self.exit_code == 0
        return self.status == "running" and self.health in {"healthy", "-"}

    @property
    def has_failed(self) -> bool:
        return self.status == "dead" or (self.status == "exited" and self.exit_code != 0)

    def __str__(self) -> str:
        return f"{self.name} is {self.status}" + (f" and {self.health}" if self.health != "-" else "")


class Compose:
    def __init__(self, project: Path = PROJECT) -> None:
        self._project = project

    def up(self, scale: Mapping[str, int], overrides: Mapping[str, str]) -> None:
        if overrides:
            raise CommandError("with Docker, put settings into .env instead of SET")
        self.write_environment()
        scales = [word for name, count in scale.items() for word in ("--scale", f"{name}={count}")]
        self._call("up", "--detach", "--build", "--remove-orphans", *scales)
        self._wait_for_health()

    def down(self) -> None:
        self.write_environment()
        self._call("down", "--remove-orphans")

    def status(self) -> bool:
        self._call("ps")
        containers = self._containers()
        return bool(containers) and all(container.is_healthy for container in containers)

    def logs(self, service: str | None, count: int, *, follow: bool) -> None:
        self._call("logs", f"--tail={count}", *(["--follow"] if follow else []), *([service] if service else []))

    def addresses(self) -> dict[str, str]:
        if not self._containers():
            raise CommandError("the system is not up: start it with `make up`")
        values = load(self._project / ".env")
        database = f"127.0.0.1:{values['POSTGRES_PORT']}/tablebell"
        broker = f"127.0.0.1:{values['AMQP_PORT']}"
        return {
            "DATABASE_URL": f"postgresql://tablebell:{values['POSTGRES_PASSWORD']}@{database}",
            "AMQP_URL": f"amqp://{user_name(OPERATOR)}:{values[password_variable(OPERATOR)]}@{broker}/%2F",
            "API_URL": f"http://127.0.0.1:{values['API_PORT']}",
            "WS_URL": f"ws://127.0.0.1:{values['WS_PORT']}",
            "SANDBOX_URL": f"http://127.0.0.1:{values['SANDBOX_PORT']}",
        }

    def database_url(self) -> str:
        return self.addresses()["DATABASE_URL"]

    def amqp_url(self) -> str:
        return self.addresses()["AMQP_URL"]

    @property
    def signing_key(self) -> Path:
        self.write_environment()
        return self._project / SIGNING_KEY

    def migrate(self) -> None:
        self._call("run", "--rm", "migrations")

    def write_environment(self) -> dict[str, str]:
        """Adds the variables of `.env.example` that `.env` lacks. A variable without a value is a secret and gets a
        random one. Compose reads `.env` before any command, so it must be complete."""
        # The user of the container must be able to read the file. On the host its directory protects it.
        create_signing_key(self._project / SIGNING_KEY, mode=0o644)
        example = load(self._project / ".env.example")
        return load_or_create(
            self._project / ".env",
            keys=[name for name, value in example.items() if not value],
            defaults={name: value for name, value in example.items() if value},
        )

    @cached_property
    def _command(self) -> list[str]:
        plugin = ["docker", "compose"]
        if subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0:
            return plugin
        if shutil.which("docker-compose"):
            return ["docker-compose"]
        raise CommandError(
            "docker compose is missing: install docker-compose-plugin or docker-compose, or use MODE=local"
        )

    def _wait_for_health(self) -> None:
        deadline = time.monotonic() + HEALTH_LIMIT
        while unhealthy := [container for container in self._containers() if not container.is_healthy]:
            if time.monotonic() > deadline or any(container.has_failed for container in unhealthy):
                raise CommandError(f"{'; '.join(map(str, unhealthy))}: see `make logs`")
            time.sleep(1)

    def _containers(self) -> list[Container]:
        listed = self._output(*self._command, "ps", "--all", "--quiet").split()
        if not listed:
            return []
        lines = self._output("docker", "inspect", "--format", CONTAINER, *listed).splitlines()
        fields = (line.lstrip("/").split(" ") for line in lines)
        return [Container(name, status, int(code), health) for name, status, code, health in fields]

    def _call(self, *arguments: str) -> None:
        if subprocess.run([*self._command, *arguments], cwd=self._project, check=False).returncode != 0:
            raise CommandError(f"docker compose {arguments[0]} failed (see above)")

    def _output(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self._project, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandError(f"`{' '.join(command[:3])}` failed: {done.stderr.strip()}")
        return done.stdout
