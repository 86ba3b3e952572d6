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


INTERNAL = {name for name, network in COMPOSE["networks"].items() if network and network.get("internal")}
# What PostgreSQL's entry point needs to take over the data directory and to become `postgres`.
ENTRY_POINT = {"postgres": {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}}


def networks(service: str) -> set[str]:
    """A container with `network_mode: none` has no network. One without `networks` would be on the default one."""
    if SERVICES[service].get("network_mode") == "none":
        return set()
    return set(SERVICES[service].get("networks", ["default"]))


def members(network: str) -> set[str]:
    return {name for name in SERVICES if network in networks(name)}


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


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_is_read_only_and_cannot_gain_privileges(service: str) -> None:
    container = SERVICES[service]

    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert set(container.get("cap_add", [])) == ENTRY_POINT.get(service, set())
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in container
    assert "mem_limit" in container


def test_only_the_proxy_is_on_the_outer_network() -> None:
    assert members("outer") == {"proxy"}
    assert networks("proxy") == {"outer", "front"}
    assert members("front") == {"proxy", "reservation-api", "ws-gateway"}


def test_only_services_with_a_url_reach_a_server() -> None:
    with_database = {name for name in SERVICES if "DATABASE_URL" in settings(name)}
    with_broker = {name for name in SERVICES if "AMQP_URL" in settings(name)}

    assert members("data") == with_database | {"postgres"}
    assert members("messages") == with_broker | {"rabbitmq"}
    for name in SERVICES.keys() - with_database - {"postgres"}:
        assert not networks(name) & networks("postgres") - {"operators"}
    assert not networks("ws-gateway") & networks("postgres")


def test_of_our_services_only_the_dispatcher_reaches_the_internet() -> None:
    outside = {name for name in SERVICES if networks(name) - INTERNAL}

    assert outside == {"proxy", "channel-dispatcher", "sandbox", "postgres", "rabbitmq", "prometheus", "grafana"}
    assert members("operators") == {"postgres", "rabbitmq", "sandbox", "prometheus", "grafana"}


def test_every_port_is_published_on_this_machine_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_public_image_can_be_pinned_in_the_environment() -> None:
    """An image is ours, and built here, or it is a variable of .env with the same default."""
    for service in SERVICES.values():
        if not service["image"].startswith("tablebell/"):
            name, default = re.fullmatch(r"\$\{(\w+):-(.+)\}", service["image"]).groups()  # type: ignore[union-attr]
            assert EXAMPLE[name] == default
    for dockerfile in PROJECT.glob("deploy/**/Dockerfile"):
        text = dockerfile.read_text()
        assert f"ARG PYTHON_IMAGE={EXAMPLE['PYTHON_IMAGE']}\n" in text
        assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
