"""Settings from the environment. Each channel's module adds its own."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from channel_dispatcher.channels.registry import CHANNELS
from channel_dispatcher.channels.spec import ChannelSettings, ChannelSpec
from tablebell.people import DURABLE_CHANNELS, Channel
from tablebell.settings import CommaSeparated, DatabaseSettings, OutboxSettings, Port, Seconds, ServiceSettings, load


def _split(value: Any) -> Any:
    return [part.strip().upper() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Pauses = Annotated[tuple[Seconds, ...], *CommaSeparated, Field(min_length=1)]


class Settings(ServiceSettings, DatabaseSettings, OutboxSettings):
    port: Port = 8084
    poll_seconds: Seconds = 10.0
    retry_pauses: Pauses = (5.0, 30.0, 120.0, 600.0)
    provider_timeout_seconds: Seconds = 15.0
    address_mark_days: Annotated[float, Field(gt=0)] = 90.0
    """How long an address that a provider reported as dead is skipped."""
    address_mark_share: Annotated[float, Field(gt=0, le=1)] = 0.02
    """The share of a channel's addresses that may be marked within the window. Further marks have no effect."""
    address_mark_window_seconds: Seconds = 600.0
    address_mark_least: Annotated[int, Field(ge=1)] = 5
    """The minimum for the limit: in a small installation one address is a large share."""
    channels_off: Annotated[frozenset[Channel], *CommaSeparated] = frozenset()
    """Disabled channels. Their rows are finished as skipped."""


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    channels: Sequence[tuple[ChannelSpec, ChannelSettings]]
    """The enabled channels, each with its settings."""

    @property
    def sms_per_day(self) -> int:
        return max((settings.limits.per_day for _, settings in self.channels), default=0)

    @property
    def off(self) -> list[Channel]:
        on = {spec.channel for spec, _ in self.channels}
        return [channel for channel in DURABLE_CHANNELS if channel not in on]


def load_all(service: str) -> Loaded:
    """Raises one error that lists all wrong and missing settings, including those of the channels."""
    off = _split(os.environ.get("CHANNELS_OFF", ""))  # read first: it decides which settings are required
    on = [spec for spec in CHANNELS if spec.channel not in off]
    bases: tuple[type[Settings | ChannelSettings], ...] = (Settings, *(spec.settings for spec in on))
    everything: type[Settings] = type("Settings", bases, {})
    settings = load(everything, service)
    return Loaded(settings, [(spec, load(spec.settings, service)) for spec in on])
