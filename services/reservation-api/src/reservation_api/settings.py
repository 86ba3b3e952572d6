"""The settings of reservation-api, read from the environment."""

from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from reservation_api.domain.limits import Limits
from tablebell.http_protocol import HttpLimits
from tablebell.settings import DatabaseSettings, Networks, Origins, Port, Seconds, ServiceSettings
from tablebell.tokens import IssuerSettings

Limit = Annotated[int, Field(ge=0, le=1_000_000)]


def _without_slash(url: str | None) -> str | None:
    return url.rstrip("/") if url else None


class Settings(ServiceSettings, DatabaseSettings, IssuerSettings):
    port: Port = 8080
    rate_limit_per_second: Annotated[float, Field(gt=0, le=1_000_000)] = 50.0
    """Per user and process."""
    rate_limit_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    auth_failures_per_second: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """Requests without a valid token, per source and process. More get 429 instead of 401."""
    auth_failures_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 50
    trusted_proxies: Networks = ()
    """Networks of the proxies whose X-Forwarded-For counts; none by default."""
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 2_000
    max_connections_per_source: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    """Trusted proxies are not limited: they limit their clients."""
    header_limit_bytes: Annotated[int, Field(ge=1_024, le=1_048_576)] = 16_384
    header_seconds: Seconds = 10.0
    body_seconds: Seconds = 20.0
    body_limit_bytes: Annotated[int, Field(ge=1_024, le=1_048_576)] = 16_384
    booking_horizon_days: Annotated[int, Field(ge=1, le=3_650)] = 730
    open_requests_per_customer: Limit = 10
    """Undecided requests. 0 disables this limit and those below."""
    open_requests_per_restaurant: Limit = 1_000
    requests_per_hour: Limit = 30
    """Per customer."""
    changes_per_hour: Limit = 10
    """Per person, including cancellations."""
    table_gap_minutes: Annotated[int, Field(ge=0, le=1_440)] = 120
    """The minimum between two reservations of one customer."""
    undo_seconds: Annotated[float, Field(ge=0, le=300)] = 8.0
    """How long staff can undo a decision. The guest is told afterwards. 0: at once, and it cannot be undone."""
    restaurant_cache_seconds: Seconds = 5.0
    person_cache_seconds: Annotated[float, Field(gt=0, le=5)] = 3.0
    """The longest time for which a deactivated person or a revoked token is still accepted."""
    internal_api_token: Annotated[SecretStr, Field(min_length=32)] | None = None
    """The token of the other services, for /internal. Without it nobody can call these routes."""
    pages_url: Annotated[
        str | None, Field(pattern=r"^https?://[^\s/?#]+(/[^\s?#]*)?$"), AfterValidator(_without_slash)
    ] = None
    """Where people reach the pages, for the link of a sign-in: https://tables.example. Without it, no links."""
    sign_in_mails_per_hour: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Per address. More requests get the same answer and no mail."""
    sign_in_per_second: Annotated[float, Field(gt=0, le=1_000_000)] = 0.1
    """Requests for a link, per source and process. More get 429."""
    sign_in_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    cors_allowed_origins: Origins = ()
    """Origins of pages that may call the API; none by default."""

    @property
    def http_limits(self) -> HttpLimits:
        return HttpLimits(
            header_bytes=self.header_limit_bytes,
            header_seconds=self.header_seconds,
            body_seconds=self.body_seconds,
            connections=self.max_connections,
            connections_per_source=self.max_connections_per_source,
            trusted_proxies=self.trusted_proxies,
        )

    @property
    def limits(self) -> Limits:
        return Limits(
            open_requests_per_customer=self.open_requests_per_customer,
            open_requests_per_restaurant=self.open_requests_per_restaurant,
            requests_per_hour=self.requests_per_hour,
            changes_per_hour=self.changes_per_hour,
            table_gap=timedelta(minutes=self.table_gap_minutes),
        )
