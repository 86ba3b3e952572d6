"""What the system consists of besides its servers: which program, which ports, which settings.

Each service is given the settings it needs and no others, under the names of the contract.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

FCM_PROJECT = "tablebell-local"
SMS_ACCOUNT = "AC00000000000000000000000000000000"


class Environment(Protocol):
    """What settings are made from."""

    def database_url(self, service: str) -> str: ...
    def secret(self, name: str) -> str: ...
    def port(self, name: str) -> int: ...
    @property
    def amqp_url(self) -> str: ...
    @property
    def fcm_credentials(self) -> Path: ...


@dataclass(frozen=True)
class ServiceSpec:
    """`ports` are the settings that name a port, each with the port's name and the number it has if it is
    free. The first is where the health check goes."""

    name: str
    module: tuple[str, ...]
    ports: Mapping[str, tuple[str, int]]
    settings: Callable[[Environment], dict[str, str]]
    needs_schema: bool = True


def _sandbox(site: Environment) -> dict[str, str]:
    return {
        "SANDBOX_HOST": "127.0.0.1",
        "SANDBOX_FCM_CREDENTIALS_FILE": str(site.fcm_credentials),
        "SANDBOX_SMS_ACCOUNT": SMS_ACCOUNT,
        "SANDBOX_SMS_TOKEN": site.secret("SMS_TOKEN"),
    }


def _tokens(site: Environment) -> dict[str, str]:
    return {"JWT_SECRET": site.secret("JWT_SECRET"), "JWT_AUDIENCE": "tablebell"}


def _pages(site: Environment) -> str:
    """Where the browsers' pages come from: the gateway serves them."""
    return ",".join(f"http://{host}:{site.port('ws-gateway')}" for host in ("127.0.0.1", "localhost"))


def _reservation_api(site: Environment) -> dict[str, str]:
    return {
        "DATABASE_URL": site.database_url("reservation-api"),
        "CORS_ALLOWED_ORIGINS": _pages(site),
        **_tokens(site),
    }


def _event_relay(site: Environment) -> dict[str, str]:
    return {"DATABASE_URL": site.database_url("event-relay"), "AMQP_URL": site.amqp_url}


def _notification_fanout(site: Environment) -> dict[str, str]:
    return {"DATABASE_URL": site.database_url("notification-fanout"), "AMQP_URL": site.amqp_url}


def _channel_dispatcher(site: Environment) -> dict[str, str]:
    return {
        "DATABASE_URL": site.database_url("channel-dispatcher"),
        "SMTP_URL": f"smtp://127.0.0.1:{site.port('sandbox-smtp')}",
        "MAIL_FROM": "Tablebell <no-reply@tablebell.example>",
        "SMS_API_URL": f"http://127.0.0.1:{site.port('sandbox-sms')}",
        "SMS_ACCOUNT": SMS_ACCOUNT,
        "SMS_TOKEN": site.secret("SMS_TOKEN"),
        "SMS_FROM": "+390200000000",
        "FCM_API_URL": f"http://127.0.0.1:{site.port('sandbox-fcm')}",
        "FCM_PROJECT": FCM_PROJECT,
        "FCM_CREDENTIALS_FILE": str(site.fcm_credentials),
        "SLACK_WEBHOOK_URL": f"http://127.0.0.1:{site.port('sandbox-slack')}/services/T000/B000/local",
    }


def _ws_gateway(site: Environment) -> dict[str, str]:
    return {
        "AMQP_URL": site.amqp_url,
        "WS_ALLOWED_ORIGINS": _pages(site),
        "PUBLIC_API_URL": f"http://127.0.0.1:{site.port('reservation-api')}",
        **_tokens(site),
    }


SERVICES = (
    ServiceSpec(
        "sandbox",
        ("tablebell_sandbox", "serve"),
        {
            "SANDBOX_PORT": ("sandbox", 8085),
            "SANDBOX_SMTP_PORT": ("sandbox-smtp", 8025),
            "SANDBOX_SMS_PORT": ("sandbox-sms", 8026),
            "SANDBOX_FCM_PORT": ("sandbox-fcm", 8027),
            "SANDBOX_SLACK_PORT": ("sandbox-slack", 8028),
        },
        _sandbox,
        needs_schema=False,
    ),
    ServiceSpec("reservation-api", ("reservation_api",), {"PORT": ("reservation-api", 8080)}, _reservation_api),
    ServiceSpec("ws-gateway", ("ws_gateway",), {"PORT": ("ws-gateway", 8081)}, _ws_gateway, needs_schema=False),
    ServiceSpec("event-relay", ("event_relay",), {"PORT": ("event-relay", 8082)}, _event_relay),
    ServiceSpec(
        "notification-fanout",
        ("notification_fanout",),
        {"PORT": ("notification-fanout", 8083)},
        _notification_fanout,
    ),
    ServiceSpec(
        "channel-dispatcher",
        ("channel_dispatcher",),
        {"PORT": ("channel-dispatcher", 8084)},
        _channel_dispatcher,
    ),
)
