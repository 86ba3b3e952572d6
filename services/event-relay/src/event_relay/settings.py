"""The settings of event-relay, from the environment."""

from datetime import timedelta

from tablebell.settings import BrokerSettings, DatabaseSettings, OutboxSettings, Port, Seconds, ServiceSettings


class Settings(ServiceSettings, DatabaseSettings, BrokerSettings, OutboxSettings):
    port: Port = 8082
    poll_seconds: Seconds = 5.0
    relay_wakeups: bool = True
    """Off: only the poll finds new events. For connection poolers without LISTEN."""

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

    @property
    def publish_timeout_seconds(self) -> float:
        """How long publishing a batch may take. The rest of the lease is for recording the outcomes."""
        return min(10.0, self.lease_seconds / 2)
