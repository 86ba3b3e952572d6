"""What ws-gateway is told by its environment."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tablebell.settings import BrokerSettings, Origins, Port, Seconds, ServiceSettings
from tablebell.tokens import TokenSettings

Bytes = Annotated[int, Field(ge=1_024, le=64 * 1024 * 1024)]


class Settings(ServiceSettings, BrokerSettings, TokenSettings):
    port: Port = 8081

    ws_allowed_origins: Origins = ()
    """Pages that may connect, besides those that this gateway serves itself; `*` lets every page in."""
    public_api_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+(/\S*)?)?$")] = ""
    """Where browsers find reservation-api; empty for port 8080 of the host that the page came from."""
    revoked_tokens_file: Path | None = None
    """One `jti` or one address (CUSTOMER:5) a line; read again whenever it changes."""

    auth_seconds: Seconds = 5.0
    expiry_grace_seconds: Seconds = 30.0
    ping_seconds: Seconds = 20.0
    """Silence after which a peer is pinged, and again after which it counts as dead."""
    stomp_heart_beat_seconds: Seconds = 10.0
    close_seconds: Seconds = 5.0
    """How long a peer may take to answer a close."""

    max_connections: Annotated[int, Field(ge=1)] = 10_000
    max_connections_per_user: Annotated[int, Field(ge=1)] = 20
    send_buffer_bytes: Bytes = 1024 * 1024
    """What a connection may owe its peer before it counts as too slow."""
    max_message_bytes: Bytes = 16 * 1024
    """The largest message that a peer may send: a token and little else."""
    receive_burst: Annotated[int, Field(ge=1)] = 100
    receive_per_second: Annotated[float, Field(gt=0)] = 20.0
    """Frames that a peer may send: so many at once, so many a second for ever."""
    queue_length: Annotated[int, Field(ge=1)] = 10_000
    """Messages that RabbitMQ keeps for this process while it is busy; the oldest go first."""
