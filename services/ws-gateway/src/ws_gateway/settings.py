"""What ws-gateway is told by its environment."""

from tablebell.settings import BrokerSettings, Port, ServiceSettings
from tablebell.tokens import TokenSettings


class Settings(ServiceSettings, BrokerSettings, TokenSettings):
    port: Port = 8081
