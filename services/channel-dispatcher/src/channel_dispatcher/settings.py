"""What channel-dispatcher is told by its environment; each channel's module adds what is its own."""

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
    """How long an address that a provider called dead is not tried."""
    address_mark_share: Annotated[float, Field(gt=0, le=1)] = 0.02
    """Of a channel's addresses: how many may be marked within the window. Beyond it marks silence nobody."""
    address_mark_window_seconds: Seconds = 600.0
    address_mark_least: Annotated[int, Field(ge=1)] = 5
    """So many may be marked within the window in any case: in a small installation one address is a large share."""
    channels_off: Annotated[frozenset[Channel], *CommaSeparated] = frozenset()
    """Channels that this installation does not have. Their rows are finished as skipped."""


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    channels: Sequence[tuple[ChannelSpec, ChannelSettings]]
    """Those that are on, each with its own settings."""

    @property
    def off(self) -> list[Channel]:
        on = {kind.channel for kind, _ in self.channels}
        return [channel for channel in DURABLE_CHANNELS if channel not in on]


def load_all(service: str) -> Loaded:
    """One message names everything that is wrong or missing, the channels' settings included."""
    off = _split(os.environ.get("CHANNELS_OFF", ""))  # ahead of the rest: it decides what is to be read at all
    on = [kind for kind in CHANNELS if kind.channel not in off]
    bases: tuple[type[Settings | ChannelSettings], ...] = (Settings, *(kind.settings for kind in on))
    everything: type[Settings] = type("Settings", bases, {})
    settings = load(everything, service)
    return Loaded(settings, [(kind, load(kind.settings, service)) for kind in on])
