"""What channel-dispatcher is told by its environment."""

from tablebell.settings import DatabaseSettings, OutboxSettings, Port, ServiceSettings


class Settings(ServiceSettings, DatabaseSettings, OutboxSettings):
    port: Port = 8084
