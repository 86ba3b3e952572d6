"""What event-relay is told by its environment."""

from datetime import timedelta

from tablebell.settings import BrokerSettings, DatabaseSettings, OutboxSettings, Port, Seconds, ServiceSettings


class Settings(ServiceSettings, DatabaseSettings, BrokerSettings, OutboxSettings):
    port: Port = 8082
    relay_poll_seconds: Seconds = 5.0
    relay_wakeups: bool = True
    """Off: the poll alone finds the work, as behind a connection pooler that knows no LISTEN."""
    relay_purge_seconds: Seconds = 3600.0

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

    @property
    def retention(self) -> timedelta:
        return timedelta(days=self.retention_days)

    @property
    def delivery_seconds(self) -> float:
        """How long the broker may take over a batch: well within the lease, which has to cover the writing down too."""
        return min(10.0, self.lease_seconds / 2)
