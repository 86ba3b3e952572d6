"""Each service gets the settings it needs and no others."""

from pathlib import Path

import pytest

from tablebell_local.instance import Instance
from tablebell_local.processes import Process
from tablebell_local.service import Service
from tablebell_local.services import SERVICES
from tablebell_local.system import System

NAMED = {spec.name: spec for spec in SERVICES}


class FakeEnvironment:
    """Its values can be recognised in the settings."""

    fcm_credentials = Path("/fcm.json")
    signing_key = Path("/key.pem")

    def database_url(self, service: str) -> str:
        return f"postgresql://{service}"

    def amqp_url(self, service: str) -> str:
        return f"amqp://{service}"

    def secret(self, name: str) -> str:
        return f"secret {name}"

    def port(self, name: str) -> int:
        return {"reservation-api": 8090, "ws-gateway": 8091}.get(name, 1)


@pytest.mark.parametrize("name", NAMED)
def test_a_service_connects_with_its_own_role_and_user(name: str) -> None:
    settings = NAMED[name].settings(FakeEnvironment())

    assert settings.get("DATABASE_URL") in {None, f"postgresql://{name}"}
    assert settings.get("AMQP_URL") in {None, f"amqp://{name}"}


def test_only_services_that_need_a_url_or_secret_get_it() -> None:
    def given(variable: str) -> set[str]:
        return {name for name, spec in NAMED.items() if variable in spec.settings(FakeEnvironment())}

    workers = {"event-relay", "notification-fanout"}
    assert given("DATABASE_URL") == workers | {"reservation-api", "channel-dispatcher"}
    assert given("AMQP_URL") == workers | {"ws-gateway"}
    assert given("JWT_PRIVATE_KEY_FILE") == {"reservation-api"}, "whoever has it can issue any token"
    assert given("JWT_JWKS_URL") == given("INTERNAL_API_URL") == {"ws-gateway"}
    assert given("INTERNAL_API_TOKEN") == {"reservation-api", "ws-gateway"}
    assert given("SMTP_URL") == given("SLACK_WEBHOOK_URL") == {"channel-dispatcher"}


def test_the_dispatcher_and_the_sandbox_have_the_same_credentials() -> None:
    dispatcher = NAMED["channel-dispatcher"].settings(FakeEnvironment())
    sandbox = NAMED["sandbox"].settings(FakeEnvironment())

    assert dispatcher["SMS_TOKEN"] == sandbox["SANDBOX_SMS_TOKEN"]
    assert dispatcher["SMS_ACCOUNT"] == sandbox["SANDBOX_SMS_ACCOUNT"]
    assert dispatcher["FCM_CREDENTIALS_FILE"] == sandbox["SANDBOX_FCM_CREDENTIALS_FILE"]


def test_the_page_of_a_moved_gateway_may_call_the_gateway_and_the_api() -> None:
    gateway, api = NAMED["ws-gateway"].settings(FakeEnvironment()), NAMED["reservation-api"].settings(FakeEnvironment())

    assert "http://localhost:8091" in gateway["WS_ALLOWED_ORIGINS"].split(",")
    assert "http://localhost:8091" in api["CORS_ALLOWED_ORIGINS"].split(",")
    assert gateway["PUBLIC_API_URL"] == "http://127.0.0.1:8090"


def test_running_replicas_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = [Process(1, "event-relay-12", ""), Process(2, "ws-gateway-2", ""), Process(3, "unknown-3", "")]
    monkeypatch.setattr("tablebell_local.system.find", lambda _: running)

    names = [process.name for process in System(Instance.named("dev", tmp_path)).processes()]

    assert [name for name in names if name.startswith("ws-")] == ["ws-gateway", "ws-gateway-2"]
    assert sum(name.startswith("event-relay") for name in names) == 12
    assert "unknown-3" not in names


def test_replicas_prefer_different_ports(tmp_path: Path) -> None:
    system = System(Instance.named("dev", tmp_path))
    services = system.services({"event-relay": 3, "notification-fanout": 2})

    wishes = [preferred for service in services for preferred in service.preferred_ports.values()]

    assert len(wishes) == len(set(wishes)) == 13
    assert [s.name for s in services if s.name.startswith("event")] == ["event-relay", "event-relay-2", "event-relay-3"]


def test_overrides_win_and_change_the_fingerprint(tmp_path: Path) -> None:
    instance = Instance.named("dev", tmp_path)
    instance.create()
    instance.ports.assign({"event-relay": 31_999}, running=())

    def relay(overrides: dict[str, str]) -> Service:
        return Service(NAMED["event-relay"], 1, instance, FakeEnvironment(), overrides)

    changed = relay({"BATCH_SIZE": "7", "AMQP_URL": "amqp://other", "PORT": "1"})

    assert changed.settings()["BATCH_SIZE"] == "7"
    assert changed.settings()["AMQP_URL"] == "amqp://other"
    assert changed.settings()["PORT"] == str(instance.ports["event-relay"])
    assert relay({}).config() == relay({}).config() != changed.config()
