"""The settings of ws-gateway, from its environment."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from tablebell.settings import BrokerSettings, Networks, Origins, Port, Seconds, ServiceSettings, is_confidential
from tablebell.tokens import TokenSettings

Bytes = Annotated[int, Field(ge=1_024, le=64 * 1024 * 1024)]


def _is_readable(file: Path) -> Path:
    try:
        file.read_text()
    except (OSError, UnicodeDecodeError):
        raise ValueError("the file cannot be read, so nobody knows which tokens are revoked") from None
    return file


class Settings(ServiceSettings, BrokerSettings, TokenSettings):
    port: Port = 8081

    ws_allowed_origins: Origins = ()
    """Origins that may connect, besides the gateway's own pages. `*` allows every origin."""
    public_api_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+(/\S*)?)?$")] = ""
    """The URL of reservation-api for browsers. Empty means port 8080 of the page's host."""
    internal_api_token: Annotated[SecretStr, Field(min_length=32)] | None = None
    """The same as in reservation-api."""
    internal_api_url: Annotated[str | None, Field(pattern=r"^https?://", validate_default=True)] = None
    """The URL of reservation-api for services. Without it revoked tokens and deactivated people are not refused."""
    access_poll_seconds: Annotated[float, Field(gt=0, le=4)] = 2.0
    """How often revoked tokens and deactivated people are asked for."""
    revoked_tokens_file: Annotated[Path, AfterValidator(_is_readable)] | None = None
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

    @field_validator("internal_api_url")
    @classmethod
    def has_token_and_is_confidential(cls, url: str | None, info: ValidationInfo) -> str | None:
        if "internal_api_token" in info.data and (info.data["internal_api_token"] is None) != (url is None):
            raise ValueError("set both this and INTERNAL_API_TOKEN (at least 32 characters), or none")
        if url is not None and not is_confidential(url) and not info.data.get("allow_http"):
            raise ValueError("should be an https:// URL (http:// only for this machine, or with ALLOW_HTTP=true)")
        return url
