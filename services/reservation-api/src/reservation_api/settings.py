"""What reservation-api is told by its environment."""

from tablebell.settings import DatabaseSettings, Port, ServiceSettings
from tablebell.tokens import TokenSettings


class Settings(ServiceSettings, DatabaseSettings, TokenSettings):
    port: Port = 8080
