"""What makes a channel: its settings, and how to open it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from channel_dispatcher.dispatcher import Sender
from channel_dispatcher.limits import Limits
from tablebell.people import Channel
from tablebell.settings import FrozenSettings

Concurrency = Annotated[int, Field(ge=1, le=1000)]
PerSecond = Annotated[float, Field(gt=0, le=100_000)]


class ChannelSettings(FrozenSettings):
    """A channel's own variables. It is on when they are set, and the service does not start when some are missing."""

    @property
    def limits(self) -> Limits:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    channel: Channel
    settings: type[ChannelSettings]
    open: Callable[[Any, float], AbstractAsyncContextManager[Sender]]
    """Takes the settings and how many seconds a provider may take to answer."""
    shared_address: bool = False
    """All messages go to one address."""
