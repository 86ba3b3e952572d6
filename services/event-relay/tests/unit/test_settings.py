from typing import Any

import pytest
from pydantic import SecretStr

from event_relay.settings import Settings


def settings(**changes: Any) -> Settings:
    given: dict[str, Any] = {
        "database_url": SecretStr("postgresql://a:b@db/x"),
        "amqp_url": SecretStr("amqp://a:b@mq/"),
    }
    return Settings(**given | changes)


@pytest.mark.parametrize("lease", [0.5, 5, 30, 600])
def test_the_publish_timeout_is_at_most_half_of_the_lease(lease: float) -> None:
    assert settings(lease_seconds=lease).publish_timeout_seconds <= lease / 2


def test_wake_ups_can_be_switched_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings().relay_wakeups
    monkeypatch.setenv("RELAY_WAKEUPS", "off")
    assert not settings().relay_wakeups
