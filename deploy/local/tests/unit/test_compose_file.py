"""docker-compose.yml: what each container is given."""

import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tablebell.broker_users import PERMISSIONS, password_variable, user_name
from tablebell_local.credentials import load
from tablebell_local.instance import PROJECT

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
EXAMPLE = load(PROJECT / ".env.example")
SECRETS = {name for name, value in EXAMPLE.items() if not value}


def settings(service: str) -> dict[str, str]:
    environment: dict[str, str] = SERVICES[service].get("environment", {})
    return environment


def test_no_secret_has_a_default_and_every_variable_is_in_the_example() -> None:
    text = (PROJECT / "docker-compose.yml").read_text()
    for name, default in re.findall(r"\$\{(\w+)(?::-([^}]*))?", text):
        assert name in EXAMPLE or name == "OTEL_EXPORTER_OTLP_ENDPOINT", f"{name} is missing in .env.example"
        assert not (name in SECRETS and default), f"the secret {name} has a default"


@pytest.mark.parametrize("service", [name for name in SERVICES if "AMQP_URL" in settings(name)])
def test_a_service_connects_to_rabbitmq_with_its_own_user(service: str) -> None:
    login = f"{user_name(service)}:${{{password_variable(service)}}}"

    assert settings(service)["AMQP_URL"] == f"amqp://{login}@rabbitmq:5672/%2F"


def test_each_user_of_rabbitmq_gets_a_password_and_nobody_else_sees_it() -> None:
    passwords = {password_variable(service) for service in PERMISSIONS}

    assert settings("broker-users").keys() == passwords
    for name in SERVICES:
        seen = {password for password in passwords if password in str(settings(name))}
        assert name == "broker-users" or seen <= {password_variable(name)}


def test_a_container_sees_only_the_database_password_of_its_own_role() -> None:
    for name in SERVICES.keys() - {"migrations"}:
        seen = set(re.findall(r"\w+_DB_PASSWORD", str(settings(name))))
        assert seen <= {f"{name.replace('-', '_').upper()}_DB_PASSWORD"}
