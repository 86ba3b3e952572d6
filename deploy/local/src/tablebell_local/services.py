"""The services of the system: their programs, ports and settings.

Each service gets only the settings it needs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

FCM_PROJECT = "tablebell-local"
JWT_AUDIENCE = "tablebell"
MAX_REPLICAS = 50
SMS_ACCOUNT = "AC00000000000000000000000000000000"


class Environment(Protocol):
    """The facts that the services' settings are made from."""

    def database_url(self, service: str) -> str: ...
    def amqp_url(self, service: str) -> str: ...
    def secret(self, name: str) -> str: ...
    def port(self, name: str) -> int: ...
    @property
    def signing_key(self) -> Path: ...
    @property
    def fcm_credentials(self) -> Path: ...


@dataclass(frozen=True)
class ServiceSpec:
    """`ports` maps a setting to the port's name and preferred number. The health check uses the first."""

    name: str
    module: tuple[str, ...]
    ports: Mapping[str, tuple[str, int]]
    settings: Callable[[Environment], dict[str, str]]
    needs_schema: bool = True


def _sandbox(environment: Environment) -> dict[str, str]:
    return {
        "SANDBOX_HOST": "127.0.0.1",
        "SANDBOX_FCM_CREDENTIALS_FILE": str(environment.fcm_credentials),
        "SANDBOX_SMS_ACCOUNT": SMS_ACCOUNT,
        "SANDBOX_SMS_TOKEN": environment.secret("SMS_TOKEN"),
    }


def _pages(environment: Environment) -> str:
    """The origins of the pages, which the gateway serves."""
    return ",".join(f"http://{host}:{environment.port('ws-gateway')}" for host in ("127.0.0.1", "localhost"))


def _reservation_api(environment: Environment) -> dict[str, str]:
    return {
        "DATABASE_URL": environment.database_url("reservation-api"),
        "CORS_ALLOWED_ORIGINS": _pages(environment),
        "PAGES_URL": f"http://127.0.0.1:{environment.port('ws-gateway')}",
        "JWT_PRIVATE_KEY_FILE": str(environment.signing_key),
        "JWT_AUDIENCE": JWT_AUDIENCE,
        "INTERNAL_API_TOKEN": environment.secret("INTERNAL_API_TOKEN"),
    }


def _event_relay(environment: Environment) -> dict[str, str]:
    return {"DATABASE_URL": environment.database_url("event-relay"), "AMQP_URL": environment.amqp_url("event-relay")}


def _notification_fanout(environment: Environment) -> dict[str, str]:
    return {
        "DATABASE_URL": environment.database_url("notification-fanout"),
        "AMQP_URL": environment.amqp_url("notification-fanout"),
    }


def _channel_dispatcher(environment: Environment) -> dict[str, str]:
    return {
        "DATABASE_URL": environment.database_url("channel-dispatcher"),
        "SMTP_URL": f"smtp://127.0.0.1:{environment.port('sandbox-smtp')}",
        "MAIL_FROM": "Tablebell <no-reply@tablebell.example>",
        "SMS_API_URL": f"http://127.0.0.1:{environment.port('sandbox-sms')}",
        "SMS_ACCOUNT": SMS_ACCOUNT,
        "SMS_TOKEN": environment.secret("SMS_TOKEN"),
        "SMS_FROM": "+390200000000",
        "FCM_API_URL": f"http://127.0.0.1:{environment.port('sandbox-fcm')}",
        "FCM_PROJECT": FCM_PROJECT,
        "FCM_CREDENTIALS_FILE": str(environment.fcm_credentials),
        "SLACK_WEBHOOK_URL": f"http://127.0.0.1:{environment.port('sandbox-slack')}/services/T000/B000/local",
    }


def _ws_gateway(environment: Environment) -> dict[str, str]:
    api = f"http://127.0.0.1:{environment.port('reservation-api')}"
    return {
        "AMQP_URL": environment.amqp_url("ws-gateway"),
        "WS_ALLOWED_ORIGINS": _pages(environment),
        "PUBLIC_API_URL": api,
        "JWT_JWKS_URL": f"{api}/.well-known/jwks.json",
        "JWT_AUDIENCE": JWT_AUDIENCE,
        "INTERNAL_API_URL": api,
        "INTERNAL_API_TOKEN": environment.secret("INTERNAL_API_TOKEN"),
    }


def _service(
    name: str, port: int, settings: Callable[[Environment], dict[str, str]], *, needs_schema: bool = True
) -> ServiceSpec:
    return ServiceSpec(name, (name.replace("-", "_"),), {"PORT": (name, port)}, settings, needs_schema)


SANDBOX_PORTS = {
    "SANDBOX_PORT": ("sandbox", 8085),
    "SANDBOX_SMTP_PORT": ("sandbox-smtp", 8025),
    "SANDBOX_SMS_PORT": ("sandbox-sms", 8026),
    "SANDBOX_FCM_PORT": ("sandbox-fcm", 8027),
    "SANDBOX_SLACK_PORT": ("sandbox-slack", 8028),
}

SERVICES = (
    ServiceSpec("sandbox", ("tablebell_sandbox", "serve"), SANDBOX_PORTS, _sandbox, needs_schema=False),
    _service("reservation-api", 8080, _reservation_api),
    _service("ws-gateway", 8081, _ws_gateway, needs_schema=False),
    _service("event-relay", 8082, _event_relay),
    _service("notification-fanout", 8083, _notification_fanout),
    _service("channel-dispatcher", 8084, _channel_dispatcher),
)
