"""The settings of notification-fanout, from its environment."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from notification_fanout.recipient_limits import RecipientLimits
from tablebell.settings import BrokerSettings, DatabaseSettings, Days, OutboxSettings, Port, Seconds, ServiceSettings

Limit = Annotated[int, Field(ge=0)]


class Settings(ServiceSettings, DatabaseSettings, BrokerSettings, OutboxSettings):
    port: Port = 8083
    listener_batch_size: Annotated[int, Field(ge=1, le=1_000)] = 100
    listener_linger_seconds: Annotated[float, Field(ge=0, le=1)] = 0.0
    expander_linger_seconds: Annotated[float, Field(ge=0, le=1)] = 0.002
    consumer_timeout_seconds: Seconds = 1800.0
    """RabbitMQ's `consumer_timeout`: a batch that cannot be handled is requeued after half of it."""
    poll_seconds: Seconds = 5.0
    inbox_retention_days: Days = 180.0
    """How long notifications stay in the inboxes. Those of a reservation in the future are kept."""
    # Messages per hour to one recipient, for each channel; 0 is no limit. Staff of a busy restaurant get one every 2 s.
    customer_sms_per_hour: Limit = 6
    customer_messages_per_hour: Limit = 30
    staff_messages_per_hour: Limit = 3600

    @property
    def recipient_limits(self) -> RecipientLimits:
        return RecipientLimits(
            self.customer_sms_per_hour, self.customer_messages_per_hour, self.staff_messages_per_hour
        )

    @model_validator(mode="after")
    def _notifications_outlive_their_rows(self) -> Self:
        if self.inbox_retention_days < max(self.retention_days, self.dead_retention_days):
            raise ValueError("INBOX_RETENTION_DAYS should not be less than RETENTION_DAYS and DEAD_RETENTION_DAYS")
        return self
