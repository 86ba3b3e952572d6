"""The settings of ws-gateway, from its environment."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tablebell.settings import BrokerSettings, Networks, Origins, Port, Seconds, ServiceSettings
from tablebell.tokens import TokenSettings

Bytes = Annotated[int, Field(ge=1_024, le=64 * 1024 * 1024)]


class Settings(ServiceSettings, BrokerSettings, TokenSettings):
    port: Port = 8081

    ws_allowed_origins: Origins = ()
    """Origins that may connect, besides the gateway's own pages. `*` allows every origin."""
    public_api_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+(/\S*)?)?$")] = ""
    """The URL of reservation-api for browsers. Empty means port 8080 of the page's host."""
    revoked_tokens_file: Path | None = None
    """One `jti` or one address (CUSTOMER:5) per line. Read again when it changes."""

    auth_seconds: Seconds = 5.0
    expiry_grace_seconds: Seconds = 30.0
    ping_seconds: Seconds = 20.0
    """A peer is pinged after this much silence, and counts as dead after the same time without an answer."""
    stomp_heart_beat_seconds: Seconds = 10.0
    close_seconds: Seconds = 5.0
    """The time a peer has to answer a close."""

    max_connections: Annotated[int, Field(ge=1)] = 10_000
    """Authenticated ones, as the next two."""
    max_connections_per_user: Annotated[int, Field(ge=1)] = 20
    max_connections_per_source: Annotated[int, Field(ge=1)] = 200
    max_unauthenticated: Annotated[int, Field(ge=1)] = 1_000
    """Connections before their authentication. The oldest makes room for a new one."""
    max_unauthenticated_per_source: Annotated[int, Field(ge=1)] = 100
    trusted_proxies: Networks = ()
    """Networks of the proxies whose X-Forwarded-For names the source; none by default."""
    header_limit_bytes: Bytes = 16 * 1024
    send_buffer_bytes: Bytes = 1024 * 1024
    """The unsent bytes of a connection at which its peer counts as too slow."""
    max_message_bytes: Bytes = 16 * 1024
    """The largest message a peer may send. The largest that clients need is an auth frame."""
    receive_burst: Annotated[int, Field(ge=1)] = 100
    receive_per_second: Annotated[float, Field(gt=0)] = 20.0
    """The token bucket for frames from a peer."""
    queue_length: Annotated[int, Field(ge=1)] = 10_000
    """Messages that RabbitMQ queues for this process. When the queue is full it drops the oldest."""
