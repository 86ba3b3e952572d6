"""What event-relay is told by its environment."""

from tablebell.settings import BrokerSettings, DatabaseSettings, OutboxSettings, Port, ServiceSettings


class Settings(ServiceSettings, DatabaseSettings, BrokerSettings, OutboxSettings):
    port: Port = 8082
