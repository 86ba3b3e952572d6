import pytest

from event_relay.settings import Settings


@pytest.fixture(autouse=True)
def _given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://a:b@db/x")
    monkeypatch.setenv("AMQP_URL", "amqp://a:b@mq/")


@pytest.mark.parametrize("lease", [0.5, 5, 30, 600])
def test_a_delivery_always_ends_well_within_its_lease(lease: float) -> None:
    assert Settings(lease_seconds=lease).delivery_seconds <= lease / 2


def test_wake_ups_can_be_switched_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().relay_wakeups
    monkeypatch.setenv("RELAY_WAKEUPS", "off")
    assert not Settings().relay_wakeups
