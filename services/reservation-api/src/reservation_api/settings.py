"""What reservation-api is told by its environment."""

from typing import Annotated

from pydantic import Field

from tablebell.settings import DatabaseSettings, Origins, Port, Seconds, ServiceSettings
from tablebell.tokens import TokenSettings


class Settings(ServiceSettings, DatabaseSettings, TokenSettings):
    port: Port = 8080
    rate_limit_per_second: Annotated[float, Field(gt=0, le=1_000_000)] = 50.0
    """For each user and process, in the long run."""
    rate_limit_burst: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    body_limit_bytes: Annotated[int, Field(ge=1_024, le=1_048_576)] = 16_384
    booking_horizon_days: Annotated[int, Field(ge=1, le=3_650)] = 730
    restaurant_cache_seconds: Seconds = 5.0
    cors_allowed_origins: Origins = ()
    """The pages that browsers may call us from; none unless named."""
