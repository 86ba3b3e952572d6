"""Each service is told what it needs, and nothing that it does not."""

from pathlib import Path

import pytest

from tablebell_local.instance import Instance
from tablebell_local.ports import PortBook
from tablebell_local.service import Service, find_replica, replica_name
from tablebell_local.services import SERVICES
from tablebell_local.system import System

NAMED = {spec.name: spec for spec in SERVICES}


class Everywhere:
    """A site whose every fact can be recognised in a setting."""

    amqp_url = "amqp://broker"
    fcm_credentials = Path("/fcm.json")

    def database_url(self, service: str) -> str:
        return f"postgresql://{service}"

    def secret(self, name: str) -> str:
        return f"secret {name}"

    def port(self, name: str) -> int:
        return {"reservation-api": 8090, "ws-gateway": 8091}.get(name, 1)


@pytest.mark.parametrize("name", NAMED)
def test_a_service_connects_as_itself(name: str) -> None:
    url = NAMED[name].settings(Everywhere()).get("DATABASE_URL")

    assert url in {None, f"postgresql://{name}"}


def test_only_who_needs_the_database_or_the_broker_or_the_secret_gets_it() -> None:
    def given(variable: str) -> set[str]:
        return {name for name, spec in NAMED.items() if variable in spec.settings(Everywhere())}

    workers = {"event-relay", "notification-fanout"}
    assert given("DATABASE_URL") == workers | {"reservation-api", "channel-dispatcher"}
    assert given("AMQP_URL") == workers | {"ws-gateway"}
    assert given("JWT_SECRET") == {"reservation-api", "ws-gateway"}
    assert given("SMTP_URL") == given("SLACK_WEBHOOK_URL") == {"channel-dispatcher"}


def test_the_dispatcher_and_the_sandbox_agree() -> None:
    dispatcher = NAMED["channel-dispatcher"].settings(Everywhere())
    sandbox = NAMED["sandbox"].settings(Everywhere())

    assert dispatcher["SMS_TOKEN"] == sandbox["SANDBOX_SMS_TOKEN"]
    assert dispatcher["SMS_ACCOUNT"] == sandbox["SANDBOX_SMS_ACCOUNT"]
    assert dispatcher["FCM_CREDENTIALS_FILE"] == sandbox["SANDBOX_FCM_CREDENTIALS_FILE"]


def test_the_page_of_a_gateway_that_had_to_move_may_call_the_gateway_and_the_api() -> None:
    gateway, api = NAMED["ws-gateway"].settings(Everywhere()), NAMED["reservation-api"].settings(Everywhere())

    assert "http://localhost:8091" in gateway["WS_ALLOWED_ORIGINS"].split(",")
    assert "http://localhost:8091" in api["CORS_ALLOWED_ORIGINS"].split(",")
    assert gateway["PUBLIC_API_URL"] == "http://127.0.0.1:8090"


@pytest.mark.parametrize("number", [1, 2, 12])
@pytest.mark.parametrize("name", NAMED)
def test_a_replica_is_known_by_its_name(name: str, number: int) -> None:
    assert find_replica(replica_name(NAMED[name], number)) == (NAMED[name], number)


def test_replicas_want_ports_of_their_own(tmp_path: Path) -> None:
    system = System(Instance.named("dev", tmp_path))
    services = system.services({"event-relay": 3, "notification-fanout": 2})

    wishes = [wish for service in services for wish in service.preferred_ports.values()]

    assert len(wishes) == len(set(wishes)) == 13
    assert [s.name for s in services if s.name.startswith("event")] == ["event-relay", "event-relay-2", "event-relay-3"]


def test_settings_of_the_callers_choice_win_and_count_as_other_settings(tmp_path: Path) -> None:
    ports = PortBook(tmp_path / "ports.json")
    ports.settle({"event-relay": 31_999}, held=())
    instance = Instance.named("dev", tmp_path)

    def relay(overrides: dict[str, str]) -> Service:
        return Service(NAMED["event-relay"], 1, instance, ports, site=Everywhere(), overrides=overrides)

    changed = relay({"BATCH_SIZE": "7", "AMQP_URL": "amqp://other", "PORT": "1"})

    assert changed.settings()["BATCH_SIZE"] == "7"
    assert changed.settings()["AMQP_URL"] == "amqp://other"
    assert changed.settings()["PORT"] == str(ports["event-relay"])
    assert relay({}).config() == relay({}).config() != changed.config()
