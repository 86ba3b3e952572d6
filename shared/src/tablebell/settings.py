"""Settings are read from the environment once, into one frozen object per service.

A service composes its Settings from the classes below and reads them with `load`, only in `__main__`.
"""

import sys
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Annotated, NoReturn, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tablebell.database_url import DatabaseUrl

Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Days = Annotated[float, Field(gt=0, le=3_650)]

# sysexits.h: the configuration is wrong, so a restart does not help.
EX_CONFIG = 78


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


CommaSeparated = (NoDecode, BeforeValidator(_split))
"""For a setting that is a list: Annotated[tuple[str, ...], *CommaSeparated]."""


def _without_slash(origins: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(origin.rstrip("/") for origin in origins)


Origins = Annotated[tuple[str, ...], *CommaSeparated, AfterValidator(_without_slash)]
"""Origins of pages as browsers send them: https://staff.example. A trailing slash is removed."""


Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], *CommaSeparated]
"""10.0.0.0/8, 2001:db8::/32; a single address is a network too."""


class FrozenSettings(BaseSettings):
    # An empty variable counts as missing: compose writes NAME= for a variable that .env lacks.
    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)


def url_with(*schemes: str) -> AfterValidator:
    """A validator for a URL with a password, which no error message may show."""

    def check(url: SecretStr) -> SecretStr:
        parts = urlsplit(url.get_secret_value())
        if parts.scheme not in schemes or not parts.hostname:
            raise ValueError(f"should look like {schemes[0]}://user:password@host:port/…")
        return url

    return AfterValidator(check)


def is_loopback(host: str) -> bool:
    """Whether this is the name or an address of the machine itself, so that nobody can read what is sent there."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_confidential(url: str) -> bool:
    """Whether nobody between us and the URL's host can read or change what is sent."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


class ServiceSettings(FrozenSettings):
    """Settings of every service: listen address, logs, time to drain."""

    host: str = "0.0.0.0"
    port: Port
    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    drain_seconds: Seconds = 10.0
    otel_exporter_otlp_endpoint: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    """The base URL of a collector for traces; empty for none."""


def _is_database_url(url: SecretStr) -> SecretStr:
    DatabaseUrl.parse(url.get_secret_value())
    return url


class DatabaseSettings(FrozenSettings):
    database_url: Annotated[SecretStr, AfterValidator(_is_database_url)]
    """May name several servers; the services use the one that accepts writes."""
    database_pool_size: Annotated[int, Field(ge=1, le=500)] = 10
    purge_seconds: Seconds = 600.0
    """How often rows past their retention are deleted."""


class BrokerSettings(FrozenSettings):
    amqp_url: Annotated[SecretStr, url_with("amqp", "amqps")]


class OutboxSettings(FrozenSettings):
    """Settings of a service that claims rows of a level."""

    batch_size: Annotated[int, Field(ge=1, le=5_000)] = 500
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    lease_seconds: Seconds = 30.0
    retention_days: Days = 7.0
    """How long done rows are kept."""
    dead_retention_days: Days = 30.0
    """How long dead rows and messages wait for an operator."""

    @property
    def retention(self) -> timedelta:
        return timedelta(days=self.retention_days)

    @property
    def dead_retention(self) -> timedelta:
        return timedelta(days=self.dead_retention_days)


SettingsT = TypeVar("SettingsT", bound=FrozenSettings)


def load(kind: type[SettingsT], service: str) -> SettingsT:
    """Read the settings, or end the process with one message that lists all errors."""
    try:
        return kind()
    except ValidationError as error:
        stop_with(f"{service} cannot start: {_describe(error)}")


def stop_with(message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.exit(EX_CONFIG)


def _describe(error: ValidationError) -> str:
    problems = [f"  {_variable(problem)}: {_message(problem)}" for problem in error.errors()]
    return "\n".join(["these settings are wrong or missing", *problems])


def _variable(problem: ErrorDetails) -> str:
    return "_".join(str(part) for part in problem["loc"]).upper() or "settings"


def _message(problem: ErrorDetails) -> str:
    # The value is never shown: it may be a secret.
    return "missing" if problem["type"] == "missing" else problem["msg"].removeprefix("Value error, ")
